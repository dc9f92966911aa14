// Switches that turn one rule of the queue protocol off, for tests that must then fail. Undefined in
// every normal build: each constant is false there and costs nothing.
#pragma once

namespace warpbell {
namespace mutate {

#if defined(WARPBELL_MUTATE_NO_TURN)
constexpr bool no_turn = true; // publish without waiting for the turn
#else
constexpr bool no_turn = false;
#endif
#if defined(WARPBELL_MUTATE_RING_AFTER_TURN)
constexpr bool ring_after_turn = true; // hand the turn on, then ring
#else
constexpr bool ring_after_turn = false;
#endif
#if defined(WARPBELL_MUTATE_RING_IF_FIRST)
constexpr bool ring_if_first = true; // ring if nobody was before me, instead of if nobody is after me
#else
constexpr bool ring_if_first = false;
#endif
#if defined(WARPBELL_MUTATE_NO_FENCE_DOORBELL)
constexpr bool no_fence_doorbell = true; // no F1
#else
constexpr bool no_fence_doorbell = false;
#endif
#if defined(WARPBELL_MUTATE_NO_FENCE_TURN)
constexpr bool no_fence_turn = true; // no F3: publish before the entries are visible
#else
constexpr bool no_fence_turn = false;
#endif
#if defined(WARPBELL_MUTATE_NO_FENCE_AFTER_DOORBELL)
constexpr bool no_fence_after_doorbell = true; // no F2
#else
constexpr bool no_fence_after_doorbell = false;
#endif
#if defined(WARPBELL_MUTATE_NO_ROOM_CHECK)
constexpr bool no_room_check = true;
#else
constexpr bool no_room_check = false;
#endif
#if defined(WARPBELL_MUTATE_ROOM_OFF_BY_ONE)
constexpr bool room_off_by_one = true;
#else
constexpr bool room_off_by_one = false;
#endif
#if defined(WARPBELL_MUTATE_NO_LOCK)
constexpr bool no_lock = true; // reap without the lock
#else
constexpr bool no_lock = false;
#endif
#if defined(WARPBELL_MUTATE_NO_FENCE_UNLOCK)
constexpr bool no_fence_unlock = true; // no F6
#else
constexpr bool no_fence_unlock = false;
#endif
#if defined(WARPBELL_MUTATE_TOLD_EARLY)
constexpr bool told_early = true; // give room before the CQ doorbell
#else
constexpr bool told_early = false;
#endif
#if defined(WARPBELL_MUTATE_TRY_ONCE)
constexpr bool try_once = true; // a waiter tries to reap once only
#else
constexpr bool try_once = false;
#endif
#if defined(WARPBELL_MUTATE_NO_REAP_IN_SUBMIT)
constexpr bool no_reap_in_submit = true; // a submitter without room does not reap
#else
constexpr bool no_reap_in_submit = false;
#endif
#if defined(WARPBELL_MUTATE_FREE_BY_OTHER)
constexpr bool free_by_other = true; // a completion frees another command's id too
#else
constexpr bool free_by_other = false;
#endif
#if defined(WARPBELL_MUTATE_REUSE_AT_TIMEOUT)
constexpr bool reuse_at_timeout = true; // no quarantine
#else
constexpr bool reuse_at_timeout = false;
#endif
#if defined(WARPBELL_MUTATE_PHASE_FROM_WRAPPED_HEAD)
constexpr bool phase_from_wrapped_head = true; // phase from the slot number, not from the index
#else
constexpr bool phase_from_wrapped_head = false;
#endif
#if defined(WARPBELL_MUTATE_STATUS_TWICE)
constexpr bool status_twice = true; // a consumed token stays valid
#else
constexpr bool status_twice = false;
#endif
#if defined(WARPBELL_MUTATE_NO_DEADLINE)
constexpr bool no_deadline = true;
#else
constexpr bool no_deadline = false;
#endif
#if defined(WARPBELL_MUTATE_LAZY_CQ_TOO_LATE)
constexpr bool lazy_cq_too_late = true; // report completions only when a whole ring of them is unreported
#else
constexpr bool lazy_cq_too_late = false;
#endif
#if defined(WARPBELL_MUTATE_SQE_UNDEFINED_DWORD)
constexpr bool sqe_undefined_dword = true; // leave dwords 12 to 15 as the last lap left them
#else
constexpr bool sqe_undefined_dword = false;
#endif
#if defined(WARPBELL_MUTATE_STALE_TOKEN_ACCEPTED)
constexpr bool stale_token_accepted = true; // answer a token without looking at its generation
#else
constexpr bool stale_token_accepted = false;
#endif
#if defined(WARPBELL_MUTATE_DBBUF_ACQ_REL)
constexpr bool dbbuf_acq_rel = true; // only an acq_rel fence between the shadow doorbell and EventIdx
#else
constexpr bool dbbuf_acq_rel = false;
#endif
#if defined(WARPBELL_MUTATE_DBBUF_EVENT_FIRST)
constexpr bool dbbuf_event_first = true; // read EventIdx before the shadow doorbell is stored
#else
constexpr bool dbbuf_event_first = false;
#endif

} // namespace mutate
} // namespace warpbell
