-- SPDX-License-Identifier: MIT
--
-- What Wireshark's own dissector of RDMAP calls "Unknown": the messages of RFC 7306. Immediate data is one of them, which a send
-- with immediate data, and an RDMA Write with immediate data, end with.
--
--     tshark -X lua_script:tools/wireshark/rdmap.lua -r FILE -Y vipl_rdmap.name
--
-- It comes after Wireshark's dissectors, reads the operation that they found, and adds a name and the data.

local rdmap = Proto("vipl_rdmap", "RDMAP, RFC 7306")

local NAMES = {
    [8] = "Immediate Data",
    [9] = "Immediate Data with Solicited Event",
    [10] = "Atomic Request",
    [11] = "Atomic Response",
}

local f = rdmap.fields
f.name = ProtoField.string("vipl_rdmap.name", "Message")
f.data = ProtoField.uint64("vipl_rdmap.immediate", "Immediate data", base.HEX)

local opcode = Field.new("iwarp_rdma.opcode")
local REST_OF_HEADER, IMMEDIATE_BYTES = 17, 8 -- behind the byte that has the operation

function rdmap.dissector(_, pinfo, tree)
    local names = {}
    for _, info in ipairs({ opcode() }) do
        local name = NAMES[info.value]
        if name then
            local message = tree:add(rdmap)
            message:add(f.name, name):set_generated()
            local source, at = info.source, info.offset + REST_OF_HEADER
            if info.value <= 9 and at + IMMEDIATE_BYTES <= source:len() then
                message:add(f.data, source(at, IMMEDIATE_BYTES))
            end
            names[#names + 1] = name
        end
    end
    if #names > 0 then
        pinfo.cols.info:append(" [" .. table.concat(names, ", ") .. "]")
    end
end

register_postdissector(rdmap)
