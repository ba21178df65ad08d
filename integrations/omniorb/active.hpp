// SPDX-License-Identifier: MIT
//
// Connections that this process has made, and the thread that watches those of them by which the
// servers may call back.
#ifndef OMNIVIPL_ACTIVE_HPP
#define OMNIVIPL_ACTIVE_HPP

#include <mutex>

#include "connection.hpp"

namespace omnivipl {

class ActiveCollection : public omni::giopActiveCollection {
public:
    /** The one of this process. */
    static ActiveCollection &singleton();

    const char *type() const override;
    void Monitor(omni::giopConnection::notifyReadable_t notify, void *cookie) override;
    CORBA::Boolean isEmpty() const override;
    void deactivate() override;

    void begin_monitoring();
    void end_monitoring();
    const std::shared_ptr<Collection> &collection() const { return collection_; }

private:
    ActiveCollection() = default;

    const std::shared_ptr<Collection> collection_ = std::make_shared<Collection>();
    mutable std::mutex lock_;
    unsigned monitored_ = 0;   // connections; guarded by lock_
    bool deactivated_ = false; // guarded by lock_
};

class ActiveConnection : public omni::giopActiveConnection, public Connection {
public:
    ActiveConnection(std::shared_ptr<Nic> nic, vipl_stream *stream, const std::string &own_address,
                     const std::string &peer_address);

    omni::giopActiveCollection *registerMonitor() override;
    omni::giopConnection &getConnection() override { return *this; }

protected:
    ~ActiveConnection() override;

private:
    bool registered_ = false; // the ORB registers a connection once, before it is used
};

} // namespace omnivipl

#endif
