// SPDX-License-Identifier: MIT
#include "listener.hpp"

#include <pthread.h>

#include <omniORB4/CORBA.h>

namespace omnivipl {

Listener::Listener(std::shared_ptr<Nic> nic, const std::string &name, bool own_nics,
                   std::function<void(const Accepted &)> accepted)
    : shared_(std::move(nic)), name_(name), own_nics_(own_nics), accepted_(std::move(accepted))
{
}

bool Listener::start()
{
    started_ = vipl_thread_start(&thread_, run, this) == 0;
    if (started_) {
        looked_.get_future().wait();
    }
    return started_;
}

/* The thread can be cancelled while it waits for a request, and nowhere else. */
Listener::~Listener()
{
    if (started_ && shared_->is_own()) {
        vipl_thread_cancel(&thread_);
        vipl_thread_join(&thread_);
    }
}

void Listener::run(void *listener)
{
    (void)vipl_cancel_off();
    static_cast<Listener *>(listener)->listen();
}

VIP_RETURN Listener::wait(const Nic &nic, VIP_ULONG ms, NetAddress &peer, VIP_CONN_HANDLE &request) const
{
    NetAddress local(nic.address(), name_);
    VIP_VI_ATTRIBUTES attributes;
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    const VIP_RETURN rc = VipConnectWait(nic.handle(), &local.net, ms, &peer.net, &attributes, &request);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return rc;
}

void Listener::listen()
{
    constexpr uint64_t again_ns = 100000000;
    VIP_ULONG ms = 0; // the shared NIC handle listens from its first look for requests on
    for (bool is_first = true;; is_first = false) {
        NetAddress peer;
        VIP_CONN_HANDLE request;
        const std::shared_ptr<Nic> &nic = ms != 0 && own_ ? own_ : shared_;
        const VIP_RETURN rc = wait(*nic, ms, peer, request);
        if (is_first) {
            looked_.set_value();
        }
        if (rc == VIP_SUCCESS) {
            if (accept(nic, request, peer)) {
                own_.reset();
            }
        } else if (rc != VIP_INTERRUPTED && rc != VIP_TIMEOUT) {
            if (omniORB::trace(1)) {
                omniORB::logger log;
                log << "giop:vipl: " << name_.c_str() << " cannot listen: " << VipxExplainError(rc) << "\n";
            }
            vipl_pause(again_ns); // descriptors or memory may be there again
            continue;
        }
        ms = VIP_INFINITE;
        prepare_own();
    }
}

bool Listener::accept(const std::shared_ptr<Nic> &nic, VIP_CONN_HANDLE request, const NetAddress &peer) const
{
    vipl_stream *stream;
    VIP_RETURN rc = VIP_ERROR_RESOURCE;
    if (vipl_stream_new(nic->get(), &stream) == 0) {
        rc = VipConnectAccept(request, vipl_stream_vi(stream));
        if (rc == VIP_SUCCESS) {
            accepted_({nic, stream, {kind_of(nic->device()), peer.host(), peer.name()}});
            return true;
        }
        vipl_stream_close(stream);
    }
    if (rc != VIP_TIMEOUT) {
        VipConnectReject(request);
    }
    if (omniORB::trace(5)) {
        omniORB::logger log;
        log << "giop:vipl: a request to " << name_.c_str() << " was not accepted: " << VipxExplainError(rc)
            << "\n";
    }
    return false;
}

void Listener::prepare_own()
{
    if (own_nics_ && !own_ && Nic::may_have_own() && kind_of(shared_->device()) == "loopback") {
        own_ = Nic::open_brief(shared_->device());
    }
}

} // namespace omnivipl
