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
#if defined(WARPBELL_MUTATE_BUFFER_FREE_AT_TIMEOUT)
constexpr bool buffer_free_at_timeout = true; // a command that timed out gives its buffer back
#else
constexpr bool buffer_free_at_timeout = false;
#endif
#if defined(WARPBELL_MUTATE_BUFFER_FREE_AT_LOSS)
constexpr bool buffer_free_at_loss =
    true; // a command of a lost queue gives its buffer back before the queue is deleted
#else
constexpr bool buffer_free_at_loss = false;
#endif
#if defined(WARPBELL_MUTATE_ID_LIVES_ON_AFTER_LOSS)
constexpr bool id_lives_on_after_loss = true; // a command answered queue_lost may be answered again
#else
constexpr bool id_lives_on_after_loss = false;
#endif
#if defined(WARPBELL_MUTATE_WORD_BEFORE_PAYLOAD)
constexpr bool word_before_payload = true; // no F5: completion words may be seen before what they answer for
#else
constexpr bool word_before_payload = false;
#endif
#if defined(WARPBELL_MUTATE_TOKEN_OF_RECYCLED_ID)
constexpr bool token_of_recycled_id = true; // a token is valid for whatever command has its id now
#else
constexpr bool token_of_recycled_id = false;
#endif
#if defined(WARPBELL_MUTATE_DEADLINE_IGNORED_IN_SUBMIT)
constexpr bool deadline_ignored_in_submit = true; // whoever waits for room waits for ever
#else
constexpr bool deadline_ignored_in_submit = false;
#endif
#if defined(WARPBELL_MUTATE_QUARANTINE_LEFT_EARLY)
constexpr bool quarantine_left_early = true; // a quarantined id comes back at the next look, completed or not
#else
constexpr bool quarantine_left_early = false;
#endif
#if defined(WARPBELL_MUTATE_ATTACH_FREES_PENDING)
constexpr bool attach_frees_pending = true; // attach takes ids for free whose commands are in flight
#else
constexpr bool attach_frees_pending = false;
#endif
#if defined(WARPBELL_MUTATE_ALARM_BEFORE_QUARANTINE)
constexpr bool alarm_before_quarantine = true; // the host is told before there is anything to see
#else
constexpr bool alarm_before_quarantine = false;
#endif
#if defined(WARPBELL_MUTATE_GENERATION_STUCK)
constexpr bool generation_stuck = true; // every command of an id has the same generation
#else
constexpr bool generation_stuck = false;
#endif
#if defined(WARPBELL_MUTATE_CID_FFFF)
constexpr bool cid_ffff = true; // the id that error log entries use for no command is issued
#else
constexpr bool cid_ffff = false;
#endif
#if defined(WARPBELL_MUTATE_HEAD_WITHOUT_TOLD)
constexpr bool head_without_told = true; // give room for completions that the controller was not told of
#else
constexpr bool head_without_told = false;
#endif
#if defined(WARPBELL_MUTATE_LBA_UNCHECKED)
constexpr bool lba_unchecked = true; // an extent may leave the namespace
#else
constexpr bool lba_unchecked = false;
#endif
#if defined(WARPBELL_MUTATE_PRP_LIST_OFF_BY_ONE)
constexpr bool prp_list_off_by_one = true; // the list begins with the first page, which PRP1 has
#else
constexpr bool prp_list_off_by_one = false;
#endif
#if defined(WARPBELL_MUTATE_PRP2_SECOND_PAGE_LOST)
constexpr bool prp2_second_page_lost = true; // data that crosses one page has no second PRP
#else
constexpr bool prp2_second_page_lost = false;
#endif
#if defined(WARPBELL_MUTATE_LOST_IGNORED)
constexpr bool lost_ignored = true; // nobody looks whether the host has given the queue up
#else
constexpr bool lost_ignored = false;
#endif
#if defined(WARPBELL_MUTATE_CLOSED_IGNORED)
constexpr bool closed_ignored = true; // a closed ticket is no reason not to reserve
#else
constexpr bool closed_ignored = false;
#endif
#if defined(WARPBELL_MUTATE_SPURIOUS_ACCEPTED)
constexpr bool spurious_accepted = true; // a completion is written over a word that is not pending
#else
constexpr bool spurious_accepted = false;
#endif
#if defined(WARPBELL_MUTATE_WORD_NOT_ARMED)
constexpr bool word_not_armed = true; // the entry is written without arming its completion word
#else
constexpr bool word_not_armed = false;
#endif
#if defined(WARPBELL_MUTATE_DOORBELL_UNMASKED)
constexpr bool doorbell_unmasked = true; // the doorbell gets the whole index, not the slot
#else
constexpr bool doorbell_unmasked = false;
#endif
#if defined(WARPBELL_MUTATE_PARTIAL_BATCH_LOST)
constexpr bool partial_batch_lost = true; // what a grant did not cover is forgotten
#else
constexpr bool partial_batch_lost = false;
#endif
#if defined(WARPBELL_MUTATE_STATUS_OF_NEIGHBOUR)
constexpr bool status_of_neighbour = true; // an answer is delivered to the next lane's command
#else
constexpr bool status_of_neighbour = false;
#endif
#if defined(WARPBELL_MUTATE_EXCLUSIVE_NOT_SAVED)
constexpr bool exclusive_not_saved = true; // detach saves nothing for the next kernel
#else
constexpr bool exclusive_not_saved = false;
#endif

} // namespace mutate
} // namespace warpbell
