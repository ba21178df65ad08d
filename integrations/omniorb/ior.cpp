// SPDX-License-Identifier: MIT
#include "ior.hpp"

#include <cstring>
#include <mutex>
#include <unistd.h>
#include <vector>

#include <omniORB4/omniIOR.h>
#include <omniORB4/omniInterceptors.h>

namespace omnivipl {

namespace {

const IOP::ComponentId TAG_VIPL = 0x5649504c; // "VIPL"
const CORBA::Octet VERSION = 1;

std::mutex lock;
std::vector<Location> published; // guarded by lock

std::string host_name()
{
    char name[256] = "localhost";
    gethostname(name, sizeof(name) - 1);
    return name;
}

CORBA::OctetSeq to_octets(const std::string &bytes)
{
    CORBA::OctetSeq octets;
    octets.length(static_cast<CORBA::ULong>(bytes.size()));
    for (CORBA::ULong i = 0; i < octets.length(); i++) {
        octets[i] = static_cast<CORBA::Octet>(bytes[i]);
    }
    return octets;
}

/* {version, kind of the device, NIC address, name, this_host()} */
void encode_component(const Location &location, IOP::TaggedComponent &component)
{
    cdrEncapsulationStream stream(CORBA::ULong(0), CORBA::Boolean(1));
    stream.marshalOctet(VERSION);
    stream.marshalRawString(location.kind.c_str());
    to_octets(location.host) >>= stream;
    stream.marshalRawString(location.name.c_str());
    stream.marshalRawString(this_host().c_str());
    component.tag = TAG_VIPL;
    stream.setOctetSeq(component.component_data);
}

/* Whether a client of this process can use the address. */
bool is_reachable(const Location &location, const std::string &host)
{
    return location.kind == "loopback" ? host == this_host()
                                       : location.kind == "tcp" || location.kind == "rnic";
}

/* Any program can make an object reference: false if the component is not one of this version. */
bool decode_component(const IOP::TaggedComponent &component, Location &location, std::string &host)
{
    try {
        cdrEncapsulationStream stream(component.component_data, 1);
        CORBA::OctetSeq address;
        if (stream.unmarshalOctet() != VERSION) {
            return false;
        }
        location.kind = CORBA::String_var(stream.unmarshalRawString());
        address <<= stream;
        location.host.assign(reinterpret_cast<const char *>(address.get_buffer()), address.length());
        location.name = CORBA::String_var(stream.unmarshalRawString());
        host = CORBA::String_var(stream.unmarshalRawString());
    } catch (const CORBA::SystemException &) {
        return false;
    }
    Location same;
    return Location::parse(location.text().substr(std::strlen(PREFIX)), same) && same == location;
}

CORBA::Boolean encode(omni::omniInterceptors::encodeIOR_T::info_T &info)
{
    if (info.iiop.version.major == 1 && info.iiop.version.minor == 0) {
        return true; // profiles of IIOP 1.0 have no components
    }
    const std::lock_guard<std::mutex> guard(lock);
    for (const Location &location : published) {
        encode_component(location, omniIOR::newIIOPtaggedComponent(info.iiop.components));
    }
    return true;
}

CORBA::Boolean decode(omni::omniInterceptors::decodeIOR_T::info_T &info)
{
    if (!info.has_iiop_body) {
        return true;
    }
    const IOP::MultipleComponentProfile &components = info.iiop.components;
    for (CORBA::ULong i = 0; i < components.length(); i++) {
        Location location;
        std::string host;
        if (components[i].tag != TAG_VIPL) {
            continue;
        }
        if (!decode_component(components[i], location, host)) {
            omniORB::logs(
                5, "giop:vipl: an object reference has a component that cannot be read; it is left out");
        } else if (is_reachable(location, host)) {
            info.ior.getIORInfo()->addresses().push_back(new Address(location));
        }
    }
    return true;
}

} // namespace

void publish_in_iors(const Location &location)
{
    const std::lock_guard<std::mutex> guard(lock);
    published.push_back(location);
}

void publish_nothing()
{
    const std::lock_guard<std::mutex> guard(lock);
    published.clear();
}

void add_profile_host(const omni::orbServer::EndpointList &others)
{
    for (CORBA::ULong i = 0; i < others.length(); i++) {
        if (std::strncmp(others[i], PREFIX, std::strlen(PREFIX)) != 0) {
            return;
        }
    }
    IIOP::Address address;
    const std::string host = host_name();
    address.host = host.c_str();
    address.port = 0;
    omniIOR::add_IIOP_ADDRESS(address, nullptr);
}

void add_interceptors()
{
    omniORB::getInterceptors()->encodeIOR.add(encode);
    omniORB::getInterceptors()->decodeIOR.add(decode);
}

} // namespace omnivipl
