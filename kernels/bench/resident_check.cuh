// What the GPU-resident controller finds wrong with a submission entry. Rules have the names that the soft
// controller's checker gives them.
#pragma once

#include "abi_resident.h"
#include "common.cuh"

namespace kernels {

WARPBELL_D constexpr u32 rule_bit(u32 rule) { return 1u << rule; }

// The fields of an entry that are looked at.
struct entry_fields {
    u32 dword[16];

    WARPBELL_D u32 operation() const { return dword[0] & 0xffu; }
    WARPBELL_D u32 cid() const { return dword[0] >> 16; }
    WARPBELL_D u32 pointer_kind() const { return dword[0] >> 14 & 3u; } // PSDT
    WARPBELL_D u64 lba() const { return pair(10); }
    WARPBELL_D u32 blocks() const { return (dword[12] & 0xffffu) + 1u; }
    WARPBELL_D u64 address() const { return pair(6); } // PRP1, or the address of the SGL descriptor
    WARPBELL_D u64 second() const { return pair(8); }  // PRP2
    WARPBELL_D u32 sgl_bytes() const { return dword[8]; }
    WARPBELL_D u32 sgl_reserved() const { return dword[9] & 0xffffffu; }
    WARPBELL_D u32 sgl_type() const { return dword[9] >> 24; }

  private:
    WARPBELL_D u64 pair(u32 low) const { return static_cast<u64>(dword[low + 1u]) << 32 | dword[low]; }
};

// The number that by itself decides which command this was.
WARPBELL_D u64 command_digest(u64 lba, u32 cid) { return splitmix64(lba << 16 | cid); }

// Checks entries of one namespace against its limits. Each check returns the rules that are broken, as bits.
class entry_checker {
  public:
    WARPBELL_D explicit entry_checker(const warpbell_resident_args& args) : args_(args) {}

    WARPBELL_D u32 check(const entry_fields& e) const {
        if (args_.flags & WARPBELL_RESIDENT_POISON && e.dword[0] == WARPBELL_RESIDENT_POISONED) {
            return rule_bit(WARPBELL_RULE_STALE_ENTRY);
        }
        u32 broken = common(e);
        const bool flushes = e.operation() == static_cast<u32>(opcode::flush);
        if (e.dword[1] != args_.ns.nsid && !(flushes && e.dword[1] == ~0u)) {
            broken |= rule_bit(WARPBELL_RULE_NAMESPACE_IDENTIFIER);
        }
        if (e.operation() > static_cast<u32>(opcode::read)) {
            broken |= rule_bit(WARPBELL_RULE_UNSUPPORTED_OPCODE);
        } else if (!flushes) {
            broken |= extent(e) | data(e);
        }
        return broken;
    }

    // The status to answer with: the wire's 15 bits. What is only logged leads to success.
    WARPBELL_D u32 status_for(u32 broken, u64 lba) const {
        WARPBELL_NO_UNROLL
        for (u32 left = broken; left != 0; left &= left - 1u) {
            if (const u32 sc = status_code(port::lowest(left))) {
                return do_not_retry | sc;
            }
        }
        return args_.flags & WARPBELL_RESIDENT_ECHO
                   ? WARPBELL_RESIDENT_ECHO_STATUS | (static_cast<u32>(lba) & 0xffu)
                   : 0;
    }

    // What broke the rule, for the host's report.
    WARPBELL_D static u64 value_at_fault(u32 rule, const entry_fields& e) {
        switch (rule) {
        case WARPBELL_RULE_NAMESPACE_IDENTIFIER:
            return e.dword[1];
        case WARPBELL_RULE_LBA_RANGE:
            return e.lba();
        case WARPBELL_RULE_TRANSFER_SIZE:
            return e.blocks();
        case WARPBELL_RULE_PRP_OFFSET:
        case WARPBELL_RULE_PRP_UNNEEDED:
        case WARPBELL_RULE_SGL_DESCRIPTOR:
        case WARPBELL_RULE_SGL_LENGTH:
            return e.second();
        case WARPBELL_RULE_PRP_MISALIGNED:
        case WARPBELL_RULE_FOREIGN_ADDRESS:
            return e.address();
        default:
            return e.dword[0];
        }
    }

  private:
    static constexpr u32 do_not_retry = 1u << 14;

    // What all commands have (NVMe Base 2.0, 3.3.3.1, figures 86 and 87).
    WARPBELL_D static u32 common(const entry_fields& e) {
        u32 broken = 0;
        if (e.cid() == 0xffffu) {
            broken |= rule_bit(WARPBELL_RULE_CID_RESERVED);
        }
        if (e.dword[0] >> 8 & 3u) {
            broken |= rule_bit(WARPBELL_RULE_FUSED_OPERATION);
        }
        if ((e.dword[0] >> 10 & 15u) | e.dword[2] | e.dword[3]) {
            broken |= rule_bit(WARPBELL_RULE_RESERVED_FIELD);
        }
        if (e.dword[4] | e.dword[5]) {
            broken |= rule_bit(WARPBELL_RULE_METADATA);
        }
        return broken;
    }

    WARPBELL_D u32 extent(const entry_fields& e) const {
        u32 broken = 0;
        if (e.blocks() > args_.ns.blocks || e.lba() > args_.ns.blocks - e.blocks()) {
            broken |= rule_bit(WARPBELL_RULE_LBA_RANGE);
        }
        if (e.blocks() > args_.ns.max_blocks) {
            broken |= rule_bit(WARPBELL_RULE_TRANSFER_SIZE);
        }
        return broken;
    }

    WARPBELL_D u32 data(const entry_fields& e) const {
        const u64 bytes = static_cast<u64>(e.blocks()) << args_.ns.block_shift;
        switch (e.pointer_kind()) {
        case 0:
            return prp(e, bytes);
        case 1:
            return sgl(e, bytes);
        default:
            return rule_bit(WARPBELL_RULE_DATA_POINTER);
        }
    }

    // One data block descriptor (Base 2.0, 4.1.2.1).
    WARPBELL_D u32 sgl(const entry_fields& e, u64 bytes) const {
        u32 broken = foreign(e.address(), bytes);
        if (e.sgl_type() != 0) {
            broken |= rule_bit(WARPBELL_RULE_SGL_DESCRIPTOR);
        }
        if (e.sgl_bytes() != bytes) {
            broken |= rule_bit(WARPBELL_RULE_SGL_LENGTH);
        }
        if (e.sgl_reserved() != 0) {
            broken |= rule_bit(WARPBELL_RULE_RESERVED_FIELD);
        }
        return broken;
    }

    // PRP1 and PRP2 (Base 2.0, 4.1.1). A list is not read: no data moves.
    WARPBELL_D u32 prp(const entry_fields& e, u64 bytes) const {
        const u64 page = 1ull << args_.ns.page_shift, offset = e.address() & (page - 1u);
        const u64 end = offset + bytes;
        u32 broken = foreign(e.address(), end < page ? bytes : page - offset);
        bool misaligned = (e.address() & 3u) != 0;
        if (end <= page) {
            broken |= e.second() != 0 ? rule_bit(WARPBELL_RULE_PRP_UNNEEDED) : 0;
        } else if (end <= 2u * page) {
            broken |= (e.second() & (page - 1u)) != 0 ? rule_bit(WARPBELL_RULE_PRP_OFFSET)
                                                      : foreign(e.second(), end - page);
        } else {
            misaligned = misaligned || (e.second() & 7u) != 0;
        }
        return broken | (misaligned ? rule_bit(WARPBELL_RULE_PRP_MISALIGNED) : 0);
    }

    WARPBELL_D u32 foreign(u64 address, u64 bytes) const {
        const u64 at = address - args_.buffer.iova; // wraps below the buffer
        const bool inside = bytes <= args_.buffer.bytes && at <= args_.buffer.bytes - bytes;
        return inside ? 0 : rule_bit(WARPBELL_RULE_FOREIGN_ADDRESS);
    }

    // Generic status codes (Base 2.0, figures 94 and 95); 0 for what the specification lets pass.
    WARPBELL_D static u32 status_code(u32 rule) {
        switch (rule) {
        case WARPBELL_RULE_CID_RESERVED:
        case WARPBELL_RULE_RESERVED_FIELD:
        case WARPBELL_RULE_PRP_UNNEEDED:
            return 0;
        case WARPBELL_RULE_UNSUPPORTED_OPCODE:
            return 0x01;
        case WARPBELL_RULE_CID_IN_FLIGHT:
            return 0x03;
        case WARPBELL_RULE_FOREIGN_ADDRESS:
            return 0x04;
        case WARPBELL_RULE_NAMESPACE_IDENTIFIER:
            return 0x0b;
        case WARPBELL_RULE_SGL_LENGTH:
            return 0x0f;
        case WARPBELL_RULE_SGL_DESCRIPTOR:
            return 0x11;
        case WARPBELL_RULE_PRP_MISALIGNED:
        case WARPBELL_RULE_PRP_OFFSET:
            return 0x13;
        case WARPBELL_RULE_LBA_RANGE:
            return 0x80;
        default:
            return 0x02; // invalid field
        }
    }

    const warpbell_resident_args& args_;
};

} // namespace kernels
