// SPDX-License-Identifier: MIT
#include "endpoint.hpp"

#include <atomic>
#include <cstring>
#include <unistd.h>

#include "connection.hpp"
#include "ior.hpp"

#include <objectAdapter.h>
#include <orbParameters.h>

namespace omnivipl {

namespace {

std::string new_name()
{
    static std::atomic<unsigned> serial{0};
    return "orb." + std::to_string(getpid()) + "." + std::to_string(++serial);
}

} // namespace

Endpoint::~Endpoint()
{
    listener_.reset();
    for (Connection *connection : accepted_) {
        connection->decrRefCount(1);
    }
}

CORBA::Boolean Endpoint::Bind()
{
    const std::shared_ptr<Nic> nic = Nic::open(device_);
    if (!nic) {
        return false;
    }
    if (name_.empty()) {
        name_ = new_name();
    }
    const Location location = {kind_of(device_), nic->address(), name_};
    addresses_.length(1);
    addresses_[0] = location.text().c_str();
    // With a pool of threads, one thread watches all connections: they share a NIC handle.
    const bool own_nics = omni::orbParameters::threadPerConnectionPolicy;
    listener_ =
        std::make_unique<Listener>(nic, name_, own_nics, [this](const Accepted &a) { on_accepted(a); });
    return listener_->start();
}

void Endpoint::on_accepted(const Accepted &accepted)
{
    auto *connection =
        new Connection(accepted.nic, accepted.stream, collection_, address(), accepted.peer.text());
    {
        const std::lock_guard<std::mutex> guard(lock_);
        accepted_.push_back(connection);
    }
    collection_->wake();
}

omni::giopConnection *Endpoint::take_accepted()
{
    const std::lock_guard<std::mutex> guard(lock_);
    if (accepted_.empty()) {
        return nullptr;
    }
    Connection *connection = accepted_.front();
    accepted_.pop_front();
    return connection;
}

omni::giopConnection *Endpoint::AcceptAndMonitor(omni::giopConnection::notifyReadable_t notify, void *cookie)
{
    for (;;) {
        omni::giopConnection *connection = take_accepted();
        if (connection != nullptr) {
            return connection;
        }
        {
            const std::lock_guard<std::mutex> guard(lock_);
            if (poked_) {
                poked_ = false;
                return nullptr;
            }
        }
        collection_->wait(notify, cookie);
    }
}

void Endpoint::Poke()
{
    {
        const std::lock_guard<std::mutex> guard(lock_);
        poked_ = true;
    }
    collection_->wake();
}

void Endpoint::Shutdown()
{
    omniORB::logs(20, "giop:vipl endpoint shut down.");
    delete this;
}

bool Endpoint::publish_one(const std::string &spec, omni::orbServer::EndpointList &published) const
{
    const bool named = spec.compare(0, std::strlen(PREFIX), PREFIX) == 0;
    if (!named && (const_cast<Endpoint *>(this)->no_publish() || spec != "addr")) {
        return false;
    }
    const std::string text = named && spec.size() > std::strlen(PREFIX) ? spec : address();
    if (!omni::omniObjAdapter::endpointInList(text.c_str(), published)) {
        add_profile_host(published);
        omni::giopEndpoint::addToIOR(text.c_str());
        published.length(published.length() + 1);
        published[published.length() - 1] = text.c_str();
    }
    return true;
}

CORBA::Boolean Endpoint::publish(const omni::orbServer::PublishSpecs &specs, CORBA::Boolean all_specs,
                                 CORBA::Boolean, omni::orbServer::EndpointList &published)
{
    bool result = false;
    for (CORBA::ULong i = 0; i < specs.length() && (all_specs || !result); i++) {
        result = publish_one(static_cast<const char *>(specs[i]), published) || result;
    }
    return result;
}

} // namespace omnivipl
