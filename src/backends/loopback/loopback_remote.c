/* SPDX-License-Identifier: MIT */
#include "backends/loopback/loopback_remote.h"
VIP_RETURN lo_remote_listen(struct vipl_be_nic *be, const struct vipl_address *local){(void)be;(void)local;return VIP_SUCCESS;}
VIP_RETURN lo_walk_begin(struct lo_request *request){(void)request;return VIP_SUCCESS;}
void lo_walk_end(struct lo_request *request){(void)request;}
void lo_call_taken(struct lo_call *call){(void)call;}
VIP_RETURN lo_call_accept(struct vipl_be_nic *be, struct lo_call *call, struct vipl_vi *vi){(void)be;(void)call;(void)vi;return VIP_TIMEOUT;}
void lo_call_reject(struct lo_call *call){(void)call;}
enum vipl_posted lo_session_send(struct vipl_vi *vi, struct lo_session *session, struct vipl_send *send){(void)vi;(void)session;(void)send;return VIPL_POSTED_AGAIN;}
void lo_session_sever(struct vipl_be_nic *be, struct vipl_vi *vi){(void)be;(void)vi;}
void lo_session_end(struct vipl_be_nic *be, struct vipl_vi *vi){(void)be;(void)vi;}
VIP_RETURN lo_region_add(struct vipl_be_nic *be, const struct vipl_region_facts *region){(void)be;(void)region;return VIP_SUCCESS;}
void lo_region_remove(struct vipl_be_nic *be, VIP_MEM_HANDLE handle){(void)be;(void)handle;}
void lo_remote_poll(struct vipl_be_nic *be){(void)be;}
int lo_remote_fd(struct vipl_be_nic *be){(void)be;return -1;}
int lo_remote_arm(struct vipl_be_nic *be){(void)be;return -1;}
void lo_remote_disarm(struct vipl_be_nic *be){(void)be;}
void lo_remote_close(struct vipl_be_nic *be){(void)be;}
