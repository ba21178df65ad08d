// SPDX-License-Identifier: MIT
//
// The transport giop:vipl as omniORB knows it. It registers itself when the library is loaded.
#include <cstring>

#include "address.hpp"
#include "endpoint.hpp"
#include "ior.hpp"
#include "vipl_nic.hpp"

#include <initialiser.h>
#include <orbOptions.h>

namespace omnivipl {

namespace {

/* DEVICE:NAME, either of which may be empty. A device may have colons in it, a name has none. */
bool parse_endpoint(const std::string &text, std::string &device, std::string &name)
{
    const size_t colon = text.rfind(':');
    device = colon == std::string::npos ? "" : text.substr(0, colon);
    name = colon == std::string::npos ? text : text.substr(colon + 1);
    device = device.empty() ? default_device() : device;
    return name.empty() || is_name(name);
}

class Transport : public omni::giopTransportImpl {
public:
    Transport() : omni::giopTransportImpl(TYPE) {}

    omni::giopEndpoint *toEndpoint(const char *text) override
    {
        std::string device, name;
        return parse_endpoint(text != nullptr ? text : "", device, name) ? new Endpoint(device, name)
                                                                         : nullptr;
    }

    omni::giopAddress *toAddress(const char *text) override
    {
        Location location;
        return text != nullptr && Location::parse(text, location) ? new Address(location) : nullptr;
    }

    CORBA::Boolean isValid(const char *text) override
    {
        Location location;
        return text != nullptr && Location::parse(text, location);
    }

    CORBA::Boolean addToIOR(const char *text, omni::IORPublish *only_some) override
    {
        Location location;
        if (text == nullptr || !Location::parse(text, location)) {
            return false;
        }
        if (only_some != nullptr) {
            omniORB::logs(1,
                          "giop:vipl: an endpoint cannot be published for some POAs alone; this one is not");
            return false;
        }
        publish_in_iors(location);
        return true;
    }

    const omnivector<const char *> *getInterfaceAddress() override
    {
        static const omnivector<const char *> none;
        return &none;
    }
};

class DeviceOption : public omni::orbOptions::Handler {
public:
    DeviceOption()
        : Handler("viplDevice", "viplDevice = a device of VIPL, such as loopback, tcp or tcp:eth0", 1,
                  "-ORBviplDevice <device>")
    {
    }

    void visit(const char *value, omni::orbOptions::Source) override
    {
        if (*value == '\0') {
            throw omni::orbOptions::BadParam(key(), value, "the name of a device");
        }
        set_default_device(value);
    }

    void dump(omni::orbOptions::sequenceString &result) override
    {
        omni::orbOptions::addKVString(key(), default_device().c_str(), result);
    }
};

class Initialiser : public omni::omniInitialiser {
public:
    Initialiser()
    {
        omni::orbOptions::singleton().registerHandler(option_);
        omni::omniInitialiser::install(this);
    }

    void attach() override { add_interceptors(); }

    void detach() override { publish_nothing(); }

    /* The process exits: what was sent last may still be here. */
    ~Initialiser()
    {
        constexpr int most_ms = 300; // a peer that makes no calls does not say that it has taken all
        (void)vipl_stream_drain(most_ms);
    }

private:
    DeviceOption option_;
};

const Transport transport;
Initialiser initialiser;

} // namespace

} // namespace omnivipl
