// SPDX-License-Identifier: MIT
#include "active.hpp"

#include "address.hpp"

namespace omnivipl {

ActiveCollection &ActiveCollection::singleton()
{
    static auto *collection = new ActiveCollection; // threads may use it until the process ends
    return *collection;
}

const char *ActiveCollection::type() const
{
    return TYPE;
}

void ActiveCollection::Monitor(omni::giopConnection::notifyReadable_t notify, void *cookie)
{
    while (!isEmpty()) {
        collection_->wait(notify, cookie);
    }
}

CORBA::Boolean ActiveCollection::isEmpty() const
{
    const std::lock_guard<std::mutex> guard(lock_);
    return monitored_ == 0 || deactivated_;
}

void ActiveCollection::deactivate()
{
    {
        const std::lock_guard<std::mutex> guard(lock_);
        deactivated_ = true;
    }
    collection_->wake();
}

void ActiveCollection::begin_monitoring()
{
    const std::lock_guard<std::mutex> guard(lock_);
    monitored_++;
    deactivated_ = false;
}

void ActiveCollection::end_monitoring()
{
    {
        const std::lock_guard<std::mutex> guard(lock_);
        monitored_--;
    }
    collection_->wake();
}

ActiveConnection::ActiveConnection(std::shared_ptr<Nic> nic, vipl_stream *stream,
                                   const std::string &own_address, const std::string &peer_address)
    : Connection(std::move(nic), stream, ActiveCollection::singleton().collection(), own_address,
                 peer_address)
{
}

ActiveConnection::~ActiveConnection()
{
    if (registered_) {
        ActiveCollection::singleton().end_monitoring();
    }
}

omni::giopActiveCollection *ActiveConnection::registerMonitor()
{
    if (!registered_) {
        registered_ = true;
        ActiveCollection::singleton().begin_monitoring();
    }
    return &ActiveCollection::singleton();
}

} // namespace omnivipl
