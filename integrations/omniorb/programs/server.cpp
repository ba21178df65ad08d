// SPDX-License-Identifier: MIT
//
// A server of Sample::Service. Writes its object reference to the file that is its first argument.
// The reference is persistent: a server that is started again in the same place has the same one.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "sample.hh"

#include <omniORB4/omniInterceptors.h>

#include <giopStream.h>

#include <giopStrand.h>

#include <GIOP_S.h> // needs the two before

namespace {

CORBA::ORB_ptr orb;
thread_local std::string caller_address;

CORBA::Boolean on_request(omni::omniInterceptors::serverReceiveRequest_T::info_T &info)
{
    caller_address = static_cast<omni::giopStream &>(info.giop_s).strand().connection->peeraddress();
    return true;
}

class Servant : public POA_Sample::Service {
    void null() override {}
    Sample::Octets *reflect(const Sample::Octets &data) override { return new Sample::Octets(data); }
    Sample::Doubles *reflect_doubles(const Sample::Doubles &data) override
    {
        return new Sample::Doubles(data);
    }
    Sample::Strings *reflect_strings(const Sample::Strings &data) override
    {
        return new Sample::Strings(data);
    }
    void put(const Sample::Octets &) override {}
    Sample::Octets *get(CORBA::ULong bytes) override
    {
        auto *data = new Sample::Octets;
        data->length(bytes);
        for (CORBA::ULong i = 0; i < bytes; i++) {
            (*data)[i] = static_cast<CORBA::Octet>(i * 7);
        }
        return data;
    }
    CORBA::ULong slow(CORBA::ULong ms) override
    {
        std::this_thread::sleep_for(std::chrono::milliseconds(ms));
        return ms;
    }
    void meet(CORBA::ULong count) override
    {
        std::unique_lock<std::mutex> guard(meeting_);
        const CORBA::ULong last = (met_++ / count + 1) * count;
        all_met_.notify_all();
        all_met_.wait(guard, [&] { return met_ >= last; });
    }
    CORBA::ULong met() override
    {
        const std::lock_guard<std::mutex> guard(meeting_);
        return met_;
    }
    CORBA::ULong call_back(Sample::Callback_ptr to, CORBA::ULong times) override
    {
        CORBA::ULong sum = 0;
        for (CORBA::ULong i = 0; i < times; i++) {
            sum += to->call(i);
        }
        return sum;
    }
    char *caller() override { return CORBA::string_dup(caller_address.c_str()); }
    void fork_child(CORBA::ULong ms) override
    {
        if (fork() == 0) {
            usleep(ms * 1000);
            _exit(0);
        }
    }
    void count() override { count_++; }
    CORBA::ULong counted() override { return count_; }
    void stop() override { orb->shutdown(false); }

    std::atomic<CORBA::ULong> count_{0};
    std::mutex meeting_;
    std::condition_variable all_met_; // of met_, with meeting_
    CORBA::ULong met_ = 0;            // calls of meet() so far; guarded by meeting_
};

PortableServer::POA_ptr make_poa()
{
    CORBA::Object_var object = orb->resolve_initial_references("RootPOA");
    PortableServer::POA_var root = PortableServer::POA::_narrow(object);
    PortableServer::POAManager_var manager = root->the_POAManager();
    CORBA::Any both;
    both <<= BiDirPolicy::BOTH;
    CORBA::PolicyList policies;
    policies.length(3);
    policies[0] = orb->create_policy(BiDirPolicy::BIDIRECTIONAL_POLICY_TYPE, both);
    policies[1] = root->create_lifespan_policy(PortableServer::PERSISTENT);
    policies[2] = root->create_id_assignment_policy(PortableServer::USER_ID);
    return root->create_POA("sample", manager, policies);
}

/* Readers see all of the file or nothing. */
void write_file(const std::string &name, const char *text)
{
    const std::string unfinished = name + ".new";
    FILE *file = std::fopen(unfinished.c_str(), "w");
    if (file != nullptr) {
        std::fputs(text, file);
        std::fclose(file);
        std::rename(unfinished.c_str(), name.c_str());
    }
}

void serve(const std::string &file)
{
    omniORB::getInterceptors()->serverReceiveRequest.add(on_request);
    PortableServer::POA_var poa = make_poa();
    PortableServer::POAManager_var manager = poa->the_POAManager();
    PortableServer::ObjectId_var id = PortableServer::string_to_ObjectId("service");
    PortableServer::ServantBase_var servant = new Servant;
    poa->activate_object_with_id(id, servant);
    CORBA::Object_var reference = poa->id_to_reference(id);
    CORBA::String_var text = orb->object_to_string(reference);
    manager->activate();
    write_file(file, text);
    orb->run();
    orb->destroy();
    CORBA::release(orb);
}

} // namespace

/* With a second argument, the number of ORBs that the process has, one after the other: the clients
 * stop each of them. */
int main(int argc, char **argv)
{
    try {
        const std::vector<char *> arguments(argv, argv + argc);
        int times = 1;
        for (int i = 0; i < times; i++) {
            std::vector<char *> rest = arguments;
            int count = argc;
            orb = CORBA::ORB_init(count, rest.data());
            if (count < 2) {
                std::fprintf(stderr, "usage: server FILE [TIMES]\n");
                return 2;
            }
            times = count > 2 ? std::atoi(rest[2]) : 1;
            serve(rest[1]);
        }
        std::puts("server: ended");
        return 0;
    } catch (const CORBA::Exception &exception) {
        std::printf("server: %s\n", exception._name());
        return 1;
    }
}
