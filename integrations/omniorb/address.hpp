// SPDX-License-Identifier: MIT
//
// Where a connection can be made to: giop:vipl:DEVICE:HOST:NAME, with the kind of the device, the
// NIC address in hexadecimal digits, and the name that the server listens for.
#ifndef OMNIVIPL_ADDRESS_HPP
#define OMNIVIPL_ADDRESS_HPP

#include <string>

#include <omniORB4/CORBA.h>
#include <omniORB4/giopEndpoint.h>

namespace omnivipl {

constexpr char TYPE[] = "giop:vipl";
constexpr char PREFIX[] = "giop:vipl:";

struct Location {
    std::string kind; // of the device
    std::string host; // the NIC address, in bytes
    std::string name; // the discriminator

    bool operator==(const Location &other) const
    {
        return kind == other.kind && host == other.host && name == other.name;
    }

    /** As in an address, with giop:vipl: before it. */
    std::string text() const;
    /** False if the text, without giop:vipl:, is not one. */
    static bool parse(const std::string &text, Location &location);
};

/** Whether a text may be the name in an address. */
bool is_name(const std::string &name);
/** What all processes have in common that reach each other over the device loopback: the running
 * system, and its network name space. */
const std::string &this_host();

class Address : public omni::giopAddress {
public:
    explicit Address(const Location &location) : location_(location), text_(location.text()) {}

    const char *type() const override { return TYPE; }
    const char *address() const override { return text_.c_str(); }
    omni::giopAddress *duplicate() const override { return new Address(location_); }
    omni::giopActiveConnection *Connect(const omni_time_t &time, CORBA::ULong flags,
                                        CORBA::Boolean &timed_out) const override;

private:
    const Location location_;
    const std::string text_;
};

} // namespace omnivipl

#endif
