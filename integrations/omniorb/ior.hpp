// SPDX-License-Identifier: MIT
//
// Object references. A server adds a component to the IIOP profile for each of its addresses. ORBs
// without this transport pass over it, and use the other addresses of the profile.
#ifndef OMNIVIPL_IOR_HPP
#define OMNIVIPL_IOR_HPP

#include <omniORB4/CORBA.h>
#include <omniORB4/giopEndpoint.h>

#include "address.hpp"

namespace omnivipl {

/** The addresses of this process's endpoints, in its object references from now on. */
void publish_in_iors(const Location &location);
/** The ORB has ended: none of them. */
void publish_nothing();
/** Has the ORB make IIOP profiles though no endpoint has a host and a port: the host of this
 * process, with the port 0. A later endpoint that has them takes its place. */
void add_profile_host(const omni::orbServer::EndpointList &others);
/** Has the ORB encode and decode the component. */
void add_interceptors();

} // namespace omnivipl

#endif
