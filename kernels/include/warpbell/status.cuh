// What became of a command.
#pragma once

#include "mutation.cuh"
#include "types.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// What the library says where the controller said nothing.
enum class code : u16 {
    timed_out = WARPBELL_STATUS_TIMED_OUT,         // in flight at its deadline; its buffer is not free yet
    not_submitted = WARPBELL_STATUS_NOT_SUBMITTED, // no room before the deadline; its buffer is free
    aborted = WARPBELL_STATUS_ABORTED,
    out_of_range = WARPBELL_STATUS_OUT_OF_RANGE,
    misaligned = WARPBELL_STATUS_MISALIGNED,
    queue_lost =
        WARPBELL_STATUS_QUEUE_GONE, // given up by the host; its buffer is not free before the host says so
    no_cid = WARPBELL_STATUS_NO_CID,
    stale_token = WARPBELL_STATUS_STALE_TOKEN,
    invalid_batch = WARPBELL_STATUS_INVALID_BATCH,
    too_large = WARPBELL_STATUS_TOO_LARGE,
    out_of_buffer = WARPBELL_STATUS_OUT_OF_BUFFER,
    invalid_field = WARPBELL_STATUS_INVALID_FIELD,
    mismatch = WARPBELL_STATUS_MISMATCH,
    no_room = WARPBELL_STATUS_NO_ROOM,
    ssd_lost = WARPBELL_STATUS_SSD_LOST, // as queue_lost, and the host will not bring the SSD back
    read_only = WARPBELL_STATUS_READ_ONLY,
    out_of_lease = WARPBELL_STATUS_OUT_OF_LEASE,
};

// Four bytes: the wire status (SC 7:0, SCT 10:8, CRD 12:11, M 13, DNR 14), or a library code.
struct [[nodiscard]] status {
    u32 bits = 0;

    status() = default;
    WARPBELL_HD constexpr status(code c) : bits(WARPBELL_STATUS_LIBRARY | static_cast<u32>(c)) {}
    WARPBELL_HD static constexpr status from_wire(u32 wire) { return from_bits(wire & WARPBELL_SLOT_STATUS); }
    WARPBELL_HD static constexpr status from_bits(u32 value) {
        status s;
        s.bits = value;
        return s;
    }

    // As a controller refuses a command that it lacks: Invalid Command Opcode, Do Not Retry (NVMe Base 2.0,
    // 3.3.3.2.1.1).
    WARPBELL_HD static constexpr status invalid_opcode() { return from_bits(dnr | 0x01u); }

    WARPBELL_HD constexpr bool ok() const { return bits == 0; }
    WARPBELL_HD constexpr bool from_library() const { return (bits & WARPBELL_STATUS_LIBRARY) != 0; }
    WARPBELL_HD constexpr bool is(code c) const { return bits == status(c).bits; }
    // Status code and status code type of the wire status (NVMe Base 2.0, 3.3.3.2.1).
    WARPBELL_HD constexpr u32 sc() const { return bits & 0xffu; }
    WARPBELL_HD constexpr u32 sct() const { return (bits >> 8) & 0x7u; }
    WARPBELL_HD constexpr bool do_not_retry() const { return !from_library() && (bits & dnr) != 0; }
    // The host aborted it, or deleted its queue (Command Abort Requested, Command Aborted due to SQ Deletion;
    // NVMe Base 2.0, 3.3.3.2.1.1). It has completed: its buffer is free.
    WARPBELL_HD constexpr bool is_aborted() const {
        return !from_library() && sct() == 0 && (sc() == 0x07u || sc() == 0x08u);
    }
    // Of a Compare: the blocks hold something else (Compare Failure; NVM Command Set 1.0, 4.1.2.1). An
    // answer.
    WARPBELL_HD constexpr bool differs() const { return !from_library() && sct() == 2u && sc() == 0x85u; }
    // Command Retry Delay: 1 to 3 name one of the controller's times, 0 none.
    WARPBELL_HD constexpr u32 retry_delay() const { return (bits >> 11) & 3u; }
    // The same command may succeed if submitted again, with the buffer it had: nothing is wrong with the
    // command or the medium, and the controller does not rule it out.
    WARPBELL_HD constexpr bool retryable() const {
        if (from_library()) {
            return is(code::not_submitted) || is(code::no_room) || is(code::no_cid);
        }
        return (!do_not_retry() || mutate::retry_despite_dnr) &&
               (sct() == 0 ? passes() : sct() == 3 && path_passes());
    }
    // The controller may still read or write the command's buffer. Of a lost queue: until the host has
    // deleted it, which comes after the host has given it up.
    WARPBELL_HD constexpr bool buffer_in_use() const {
        return (is(code::timed_out) && !mutate::buffer_free_at_timeout) ||
               ((is(code::queue_lost) || is(code::ssd_lost)) && !mutate::buffer_free_at_loss);
    }
    // It finds fault with the command, and not with the SSD: another SSD may well have done it. Of those that
    // the library makes: what it refused for the sake of the command, before it was sent.
    WARPBELL_HD constexpr bool rejects_command() const {
        if (from_library()) {
            return is(code::out_of_range) || is(code::misaligned) || is(code::too_large) ||
                   is(code::out_of_buffer) || is(code::invalid_field) || is(code::read_only) ||
                   is(code::out_of_lease);
        }
        return sct() == 0 ? command_is_wrong() : sct() == 1u && command_conflicts();
    }
    WARPBELL_HD constexpr const char* name() const;

  private:
    static constexpr u32 dnr = 1u << 14; // Do Not Retry
    // Generic statuses that tell of a moment and not of the command (NVMe Base 2.0, 3.3.3.2.1.1; from 80h on
    // those of I/O commands).
    WARPBELL_HD constexpr bool passes() const {
        switch (sc()) {
        case 0x04: // Data Transfer Error
        case 0x05: // Commands Aborted due to Power Loss Notification
        case 0x06: // Internal Error
        case 0x07: // Command Abort Requested
        case 0x08: // Command Aborted due to SQ Deletion
        case 0x1d: // Sanitize In Progress
        case 0x21: // Command Interrupted
        case 0x22: // Transient Transport Error
        case 0x82: // Namespace Not Ready
        case 0x84: // Format In Progress
            return true;
        default:
            return false;
        }
    }
    // Generic statuses about fields of a command (3.3.3.2.1.1), LBA Out of Range among them.
    WARPBELL_HD constexpr bool command_is_wrong() const {
        switch (sc()) {
        case 0x01: // Invalid Command Opcode
        case 0x02: // Invalid Field in Command
        case 0x0d: // of an SGL: a segment,
        case 0x0e: // how many there are,
        case 0x0f: // the length of data,
        case 0x10: // or of metadata,
        case 0x11: // the type,
        case 0x16: // the offset
        case 0x13: // PRP Offset Invalid
        case 0x80: // LBA Out of Range
            return true;
        default:
            return false;
        }
    }
    // The same of command specific ones (NVM Command Set 1.0, 4.1.2.1).
    WARPBELL_HD constexpr bool command_conflicts() const {
        // Conflicting Attributes, Invalid Protection Information, Command Size Limit Exceeded
        return sc() == 0x80u || sc() == 0x81u || sc() == 0x83u;
    }
    // Path related statuses that pass (3.3.3.2.1.4).
    WARPBELL_HD constexpr bool path_passes() const {
        // Internal Path Error, Asymmetric Access Transition, Controller Pathing Error
        return sc() == 0x00 || sc() == 0x03 || sc() == 0x60;
    }
};
static_assert(__is_trivially_copyable(status));
static_assert(sizeof(status) == 4, "status is part of the ABI");

WARPBELL_HD constexpr const char* status::name() const {
    if (!from_library()) {
        return ok() ? "success" : "device_error";
    }
    switch (static_cast<code>(bits & ~WARPBELL_STATUS_LIBRARY)) {
    case code::timed_out:
        return "timed_out";
    case code::not_submitted:
        return "not_submitted";
    case code::aborted:
        return "aborted";
    case code::out_of_range:
        return "out_of_range";
    case code::misaligned:
        return "misaligned";
    case code::queue_lost:
        return "queue_lost";
    case code::no_cid:
        return "no_cid";
    case code::stale_token:
        return "stale_token";
    case code::invalid_batch:
        return "invalid_batch";
    case code::too_large:
        return "too_large";
    case code::out_of_buffer:
        return "out_of_buffer";
    case code::invalid_field:
        return "invalid_field";
    case code::mismatch:
        return "mismatch";
    case code::no_room:
        return "no_room";
    case code::ssd_lost:
        return "ssd_lost";
    case code::read_only:
        return "read_only";
    case code::out_of_lease:
        return "out_of_lease";
    }
    return "unknown";
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
