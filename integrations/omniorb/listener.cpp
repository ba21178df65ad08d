// SPDX-License-Identifier: MIT
#include "listener.hpp"

#include <algorithm>
#include <pthread.h>

#include <omniORB4/CORBA.h>

namespace omnivipl {

namespace {

// NIC handles that listen for one name: the device loopback has room for 16.
constexpr size_t MOST_NICS = 12;

} // namespace

Listener::Listener(std::shared_ptr<Nic> nic, const std::string &name, bool own_nics,
                   std::function<void(const Accepted &)> accepted)
    : nic_(std::move(nic)), name_(name), own_nics_(own_nics), accepted_(std::move(accepted))
{
}

bool Listener::start()
{
    started_ = vipl_thread_start(&thread_, run, this) == 0;
    return started_;
}

/* The thread can be cancelled while it waits for a request, and nowhere else. */
Listener::~Listener()
{
    if (started_ && nic_->is_own()) {
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
    for (;;) {
        NetAddress peer;
        VIP_CONN_HANDLE request;
        prepare_next();
        const VIP_RETURN rc = wait(*nic_, VIP_INFINITE, peer, request);
        if (rc == VIP_SUCCESS) {
            if (accept(nic_, request, peer) && next_) {
                used_.push_back(nic_);
                nic_ = std::move(next_);
            }
        } else if (rc != VIP_INTERRUPTED) {
            if (omniORB::trace(1)) {
                omniORB::logger log;
                log << "giop:vipl: " << name_.c_str() << " cannot listen: " << VipxExplainError(rc) << "\n";
            }
            vipl_pause(again_ns); // descriptors or memory may be there again
        }
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

bool Listener::may_have_next()
{
    used_.erase(std::remove_if(used_.begin(), used_.end(),
                               [](const std::weak_ptr<Nic> &nic) { return nic.expired(); }),
                used_.end());
    return own_nics_ && !next_ && used_.size() + 2 <= MOST_NICS && kind_of(nic_->device()) == "loopback";
}

/* A NIC handle begins to listen with its first look for requests, which may find one. */
void Listener::prepare_next()
{
    while (may_have_next()) {
        NetAddress peer;
        VIP_CONN_HANDLE request;
        const std::shared_ptr<Nic> nic = Nic::open(nic_->device());
        const VIP_RETURN rc = nic ? wait(*nic, 0, peer, request) : VIP_ERROR_RESOURCE;
        if (rc != VIP_SUCCESS && rc != VIP_TIMEOUT) {
            return;
        }
        if (rc == VIP_SUCCESS && accept(nic, request, peer)) {
            used_.emplace_back(nic);
        } else {
            next_ = nic;
        }
    }
}

} // namespace omnivipl
