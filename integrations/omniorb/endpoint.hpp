// SPDX-License-Identifier: MIT
//
// Where a server is called: giop:vipl:DEVICE:NAME. Both may be empty: the default device, and a
// name that no other endpoint has.
#ifndef OMNIVIPL_ENDPOINT_HPP
#define OMNIVIPL_ENDPOINT_HPP

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "collection.hpp"
#include "listener.hpp"

namespace omnivipl {

class Endpoint : public omni::giopEndpoint {
public:
    Endpoint(const std::string &device, const std::string &name) : device_(device), name_(name) {}

    const char *type() const override { return TYPE; }
    const char *address() const override { return addresses_[0]; }
    const omni::orbServer::EndpointList *addresses() const override { return &addresses_; }
    CORBA::Boolean publish(const omni::orbServer::PublishSpecs &specs, CORBA::Boolean all_specs,
                           CORBA::Boolean all_endpoints, omni::orbServer::EndpointList &published) override;
    CORBA::Boolean Bind() override;
    omni::giopConnection *AcceptAndMonitor(omni::giopConnection::notifyReadable_t notify,
                                           void *cookie) override;
    void Poke() override;
    void Shutdown() override;

protected:
    ~Endpoint() override;

private:
    bool publish_one(const std::string &spec, omni::orbServer::EndpointList &published) const;
    void on_accepted(const Accepted &accepted);
    omni::giopConnection *take_accepted();

    const std::string device_;
    std::string name_; // constant once bound
    omni::orbServer::EndpointList addresses_;
    const std::shared_ptr<Collection> collection_ = std::make_shared<Collection>();
    std::unique_ptr<Listener> listener_;
    std::mutex lock_;
    std::deque<Connection *> accepted_; // those that the ORB has yet to take; guarded by lock_
    bool poked_ = false;                // guarded by lock_
};

} // namespace omnivipl

#endif
