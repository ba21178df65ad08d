-- SPDX-License-Identifier: MIT
--
-- EFE, the Ethernet layer of the RDMA card (docs/rnic/efe.md), for Wireshark and tshark:
--
--     tshark -X lua_script:tools/wireshark/efe.lua -r FILE -Y 'efe.type == 1 && iwarp_rdma.opcode == 3'
--
-- All fields of the header are shown, the CRC32C is checked, and the DDP segment of a data frame goes to Wireshark's own dissector.

local efe = Proto("efe", "EFE, Ethernet of the RDMA card")

local ETHERTYPE = 0x88B5
local HEADER, CRC, SACK_BYTES = 48, 4, 32
local DATA, ACK, CONTROL, MESSAGE_ACK, PROBE, RESET = 1, 2, 3, 4, 5, 6
local TYPES = {
    [DATA] = "Data",
    [ACK] = "Ack",
    [CONTROL] = "Control",
    [MESSAGE_ACK] = "Message ack",
    [PROBE] = "Probe",
    [RESET] = "Reset",
}
local STATUS = { [0] = "Bad", [1] = "Good", [2] = "Not checked" }

local f = efe.fields
f.version = ProtoField.uint8("efe.version", "Version", base.DEC, nil, 0xF0)
f.type = ProtoField.uint8("efe.type", "Type", base.DEC, TYPES, 0x0F)
f.flags = ProtoField.uint8("efe.flags", "Flags", base.HEX)
f.first = ProtoField.bool("efe.flags.first", "First frame of the message", 8, nil, 0x80)
f.last = ProtoField.bool("efe.flags.last", "Last frame of the message", 8, nil, 0x40)
f.ack_now = ProtoField.bool("efe.flags.ack_now", "Acknowledge at once", 8, nil, 0x20)
f.new = ProtoField.bool("efe.flags.new", "New: nothing heard of the peer", 8, nil, 0x10)
f.length = ProtoField.uint16("efe.length", "Payload length")
f.from_fn = ProtoField.uint16("efe.from_fn", "Source function")
f.to_fn = ProtoField.uint16("efe.to_fn", "Destination function")
f.fn = ProtoField.uint16("efe.fn", "Source or destination function")
f.epoch = ProtoField.uint32("efe.epoch", "Epoch", base.HEX)
f.sequence = ProtoField.uint32("efe.sequence", "Sequence number")
f.relative = ProtoField.uint32("efe.sequence.relative", "Sequence number, from the epoch on")
f.next_expected = ProtoField.uint32("efe.next_expected", "Next expected")
f.window = ProtoField.uint16("efe.window", "Window in frames")
f.to_qp = ProtoField.uint16("efe.to_qp", "Destination QP")
f.from_qp = ProtoField.uint16("efe.from_qp", "Source QP")
f.zero = ProtoField.uint16("efe.zero", "Zero", base.HEX)
f.left = ProtoField.uint32("efe.left", "Bytes of the message left")
f.message = ProtoField.uint32("efe.message", "Message number")
f.sent = ProtoField.uint32("efe.sent", "Sent, in us")
f.echo = ProtoField.uint32("efe.echo", "Echo, in us")
f.held = ProtoField.uint32("efe.held", "Echo held, in us")
f.sack = ProtoField.bytes("efe.sack", "Selective acknowledgment")
f.sacked = ProtoField.uint32("efe.sacked", "Also received")
f.payload = ProtoField.bytes("efe.payload", "Payload")
f.crc = ProtoField.uint32("efe.crc", "CRC32C", base.HEX)
f.crc_status = ProtoField.uint8("efe.crc.status", "CRC32C status", base.DEC, STATUS)
f.padding = ProtoField.bytes("efe.padding", "Padding")

local bad_crc = ProtoExpert.new("efe.crc.bad", "Bad CRC32C", expert.group.CHECKSUM, expert.severity.ERROR)
local cut = ProtoExpert.new("efe.cut", "The frame is shorter than it says", expert.group.MALFORMED, expert.severity.ERROR)
local unknown = ProtoExpert.new("efe.unknown", "Unknown version or type", expert.group.UNDECODED, expert.severity.WARN)
local wrong_length = ProtoExpert.new("efe.wrong_length", "A length that the type does not have", expert.group.PROTOCOL, expert.severity.ERROR)
efe.experts = { bad_crc, cut, unknown, wrong_length }

efe.prefs.check_crc = Pref.bool("Check the CRC32C", true, "Work out the CRC32C of each frame and compare")

local eth_dst, eth_src = Field.new("eth.dst"), Field.new("eth.src")
local ddp = Dissector.get("iwarp_ddp_rdmap")
local data = Dissector.get("data")

-- CRC32C, reflected, a byte at a time.
local crc_table = {}
for i = 0, 255 do
    local crc = i
    for _ = 1, 8 do
        crc = bit.bxor(bit.rshift(crc, 1), bit.band(crc, 1) == 1 and 0x82F63B78 or 0)
    end
    crc_table[i] = crc
end

local function crc32c(bytes)
    local crc = -1
    for i = 1, #bytes do
        crc = bit.bxor(bit.rshift(crc, 8), crc_table[bit.band(bit.bxor(crc, bytes:byte(i)), 0xFF)])
    end
    return bit.bnot(crc)
end

-- What the CRC covers in front of EFE's header. A VLAN tag is not part of it.
local function ethernet()
    local dst, src = eth_dst(), eth_src()
    if not dst or not src then
        return nil
    end
    return dst.range:raw() .. src.range:raw() .. string.char(math.floor(ETHERTYPE / 256), ETHERTYPE % 256)
end

local function add_flags(tree, range)
    local flags = tree:add(f.flags, range)
    for _, flag in ipairs({ f.first, f.last, f.ack_now, f.new }) do
        flags:add(flag, range)
    end
end

local function add_function(tree, field, range)
    local item = tree:add(field, range)
    if range:uint() == 0xFFFF then
        item:append_text(" (the adapter)")
    end
    tree:add(f.fn, range):set_hidden()
end

local function add_header(tree, tvb)
    tree:add(f.version, tvb(0, 1))
    tree:add(f.type, tvb(0, 1))
    add_flags(tree, tvb(1, 1))
    tree:add(f.length, tvb(2, 2))
    add_function(tree, f.from_fn, tvb(4, 2))
    add_function(tree, f.to_fn, tvb(6, 2))
    tree:add(f.epoch, tvb(8, 4))
    tree:add(f.sequence, tvb(12, 4))
    local relative = (tvb(12, 4):uint() - tvb(8, 4):uint()) % 4294967296
    tree:add(f.relative, tvb(12, 4), relative):set_generated()
    tree:add(f.next_expected, tvb(16, 4))
    tree:add(f.window, tvb(20, 2))
    tree:add(f.to_qp, tvb(22, 2))
    tree:add(f.from_qp, tvb(24, 2))
    tree:add(f.zero, tvb(26, 2))
    tree:add(f.left, tvb(28, 4))
    tree:add(f.message, tvb(32, 4))
    tree:add(f.sent, tvb(36, 4))
    tree:add(f.echo, tvb(40, 4))
    tree:add(f.held, tvb(44, 4))
    return relative
end

local function add_sack(tree, range, next_expected)
    local sack, count = tree:add(f.sack, range), 0
    local bytes = range:bytes()
    for i = 1, 8 * SACK_BYTES - 1 do
        if bit.band(bytes:get_index(math.floor(i / 8)), bit.rshift(0x80, i % 8)) ~= 0 then
            sack:add(f.sacked, range(math.floor(i / 8), 1), (next_expected + i) % 4294967296)
            count = count + 1
        end
    end
    sack:append_text(" (" .. count .. " frames)")
end

local function add_crc(tree, tvb, at)
    local range, before = tvb(at, CRC), ethernet()
    local item = tree:add_le(f.crc, range)
    local status = 2
    if efe.prefs.check_crc and before then
        status = bit.tobit(crc32c(before .. tvb(0, at):raw())) == bit.tobit(range:le_uint()) and 1 or 0
    end
    tree:add(f.crc_status, range, status):set_generated()
    if status == 0 then
        item:add_proto_expert_info(bad_crc)
    end
    return status
end

local function length_fits(type, length)
    if type == ACK then
        return length == SACK_BYTES
    end
    return length == 0 or (type ~= PROBE and type ~= RESET)
end

local function describe(type, tvb, relative)
    local info = string.format("%s %d.%d > %d.%d seq %d next %u win %d", TYPES[type] or "Unknown", tvb(4, 2):uint(), tvb(24, 2):uint(),
                               tvb(6, 2):uint(), tvb(22, 2):uint(), relative, tvb(16, 4):uint(), tvb(20, 2):uint())
    if bit.band(tvb(1, 1):uint(), 0x10) ~= 0 then
        info = info .. " new"
    end
    return info
end

local function add_payload(tree, tvb, pinfo, root, type, length)
    if length == 0 then
        return
    end
    local range = tvb(HEADER, length)
    if type == ACK and length == SACK_BYTES then
        add_sack(tree, range, tvb(16, 4):uint())
    elseif type == DATA then
        ddp:call(range:tvb(), pinfo, root)
    else
        tree:add(f.payload, range)
    end
end

function efe.dissector(tvb, pinfo, root)
    pinfo.cols.protocol = "EFE"
    local tree = root:add(efe, tvb())
    if tvb:len() < HEADER + CRC then
        tree:add_proto_expert_info(cut)
        return tvb:len()
    end
    local type, length = bit.band(tvb(0, 1):uint(), 0x0F), tvb(2, 2):uint()
    local relative = add_header(tree, tvb)
    pinfo.cols.info = describe(type, tvb, relative)
    if tvb(0, 1):bitfield(0, 4) ~= 1 or not TYPES[type] then
        tree:add_proto_expert_info(unknown)
        data:call(tvb(HEADER):tvb(), pinfo, root)
        return tvb:len()
    end
    local end_of_payload = HEADER + length
    if end_of_payload + CRC > tvb:len() then
        tree:add_proto_expert_info(cut)
        return tvb:len()
    end
    tree:set_len(end_of_payload + CRC)
    local status = add_crc(tree, tvb, end_of_payload)
    if end_of_payload + CRC < tvb:len() then
        tree:add(f.padding, tvb(end_of_payload + CRC))
    end
    if not length_fits(type, length) then
        tree:add_proto_expert_info(wrong_length)
    elseif status ~= 0 then
        add_payload(tree, tvb, pinfo, root, type, length)
    end
    return tvb:len()
end

DissectorTable.get("ethertype"):add(ETHERTYPE, efe)
