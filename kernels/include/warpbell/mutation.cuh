// Switches that turn one rule of the queue protocol off, for tests that must then fail. Undefined in
// every normal build: each constant is false there and costs nothing.
#pragma once

// A constant, true where WARPBELL_MUTATE_rule is defined as 1, false where it is not defined.
#define WARPBELL_CONSTANT(rule, name) constexpr bool name = WARPBELL_SWITCH_EXPAND(WARPBELL_MUTATE_##rule)
#if defined(WARPBELL_SWITCHES)
// On the CPU target: variables that a test sets in the loaded module, so that one module serves for all
// rules. Of CONSTANT, what others are made from at compile time. Weak and not inline, as those are one for
// all modules of a process.
#define WARPBELL_SWITCH(rule, name) [[gnu::weak, gnu::used, gnu::visibility("default")]] bool name = false
#else
#define WARPBELL_SWITCH(rule, name) WARPBELL_CONSTANT(rule, name)
#endif
#define WARPBELL_SWITCH_EXPAND(value) WARPBELL_SWITCH_OF(value)
#define WARPBELL_SWITCH_OF(value) WARPBELL_SWITCH_PICK(WARPBELL_SWITCH_##value)
#define WARPBELL_SWITCH_PICK(two_or_one) WARPBELL_SWITCH_SECOND(two_or_one true, false, 0)
#define WARPBELL_SWITCH_1 0,
#define WARPBELL_SWITCH_SECOND(first, second, ...) second

namespace warpbell {
namespace mutate {

// One a line, however long: tests read them.
// clang-format off
WARPBELL_SWITCH(NO_TURN, no_turn); // publish without waiting for the turn
WARPBELL_SWITCH(RING_AFTER_TURN, ring_after_turn); // hand the turn on, then ring
WARPBELL_SWITCH(RING_IF_FIRST, ring_if_first); // ring if nobody was before me, instead of if nobody is after me
WARPBELL_SWITCH(NO_FENCE_DOORBELL, no_fence_doorbell); // no F1
WARPBELL_SWITCH(NO_FENCE_TURN, no_fence_turn); // no F3: whoever waits for the turn, to pass it on without ringing, has no fence between its entries and the wait
WARPBELL_SWITCH(NO_FENCE_AFTER_DOORBELL, no_fence_after_doorbell); // no F2
WARPBELL_SWITCH(NO_ROOM_CHECK, no_room_check); // reserve without looking for room
WARPBELL_SWITCH(ROOM_OFF_BY_ONE, room_off_by_one); // take one entry more than the ring has
WARPBELL_SWITCH(NO_LOCK, no_lock); // reap without the lock
WARPBELL_SWITCH(NO_FENCE_UNLOCK, no_fence_unlock); // no F6
WARPBELL_SWITCH(REPORTED_EARLY, reported_early); // give room before the CQ doorbell
WARPBELL_SWITCH(TRY_ONCE, try_once); // a waiter tries to reap once only
WARPBELL_SWITCH(WORDS_NOT_READ_AGAIN, words_not_read_again); // whoever becomes the poller does not look whether it was answered meanwhile
WARPBELL_SWITCH(LOCK_KEPT, lock_kept); // whoever has looked at the ring for all leaves without letting another do it
WARPBELL_SWITCH(NO_REAP_IN_SUBMIT, no_reap_in_submit); // a submitter without room does not reap
WARPBELL_SWITCH(FREE_BY_OTHER, free_by_other); // a completion frees another command's id too
WARPBELL_SWITCH(REUSE_AT_TIMEOUT, reuse_at_timeout); // no quarantine
WARPBELL_SWITCH(PHASE_FROM_WRAPPED_HEAD, phase_from_wrapped_head); // phase from the slot number, not from the index
WARPBELL_SWITCH(STATUS_TWICE, status_twice); // a consumed token stays valid
WARPBELL_SWITCH(NO_DEADLINE, no_deadline); // no wait ever reads the clock
WARPBELL_SWITCH(LAZY_CQ_TOO_LATE, lazy_cq_too_late); // report completions only when a whole ring of them is unreported
WARPBELL_SWITCH(SQE_UNDEFINED_DWORD, sqe_undefined_dword); // leave dwords 12 to 15 as the last lap left them
WARPBELL_SWITCH(STALE_TOKEN_ACCEPTED, stale_token_accepted); // answer a token without looking at its generation
WARPBELL_SWITCH(DBBUF_ACQ_REL, dbbuf_acq_rel); // only an acq_rel fence between the shadow doorbell and EventIdx
WARPBELL_SWITCH(DBBUF_EVENT_FIRST, dbbuf_event_first); // read EventIdx before the shadow doorbell is stored
WARPBELL_SWITCH(BUFFER_FREE_AT_TIMEOUT, buffer_free_at_timeout); // a command that timed out releases its buffer
WARPBELL_SWITCH(BUFFER_FREE_AT_LOSS, buffer_free_at_loss); // a command of a lost queue releases its buffer before the queue is deleted
WARPBELL_SWITCH(ID_LIVES_ON_AFTER_LOSS, id_lives_on_after_loss); // a command answered queue_lost may be answered again
WARPBELL_SWITCH(WORD_BEFORE_PAYLOAD, word_before_payload); // no F5: completion slots may be seen before what they answer for
WARPBELL_SWITCH(NO_FLUSH, no_flush); // whoever reaps delivers without having flushed the data
WARPBELL_SWITCH(FLUSH_REGISTER_ALONE, flush_register_alone); // a flush does not read the memory that data lies in
WARPBELL_SWITCH(FLUSH_UNANSWERED, flush_unanswered); // a flush that no controller answered counts
WARPBELL_SWITCH(TOKEN_OF_RECYCLED_ID, token_of_recycled_id); // a token is valid for whatever command has its id now
WARPBELL_SWITCH(DEADLINE_IGNORED_IN_SUBMIT, deadline_ignored_in_submit); // whoever waits for room waits for ever
WARPBELL_SWITCH(QUARANTINE_LEFT_EARLY, quarantine_left_early); // a quarantined id comes back at the next poll, completed or not
WARPBELL_SWITCH(ATTACH_FREES_PENDING, attach_frees_pending); // attach takes ids for free whose commands are in flight
WARPBELL_SWITCH(MASK_OF_BEFORE, mask_of_before); // attach leaves the host what an earlier kernel had given up
WARPBELL_SWITCH(ALARM_BEFORE_QUARANTINE, alarm_before_quarantine); // the host is told before there is anything to see
WARPBELL_SWITCH(GENERATION_STUCK, generation_stuck); // every command of an id has the same generation
WARPBELL_SWITCH(CID_FFFF, cid_ffff); // the id that error log entries use for no command is issued
WARPBELL_SWITCH(HEAD_WITHOUT_REPORTED, head_without_reported); // give room for completions that the controller was not told of
WARPBELL_SWITCH(LBA_UNCHECKED, lba_unchecked); // an extent may leave the namespace
WARPBELL_SWITCH(PRP_LIST_OFF_BY_ONE, prp_list_off_by_one); // the list begins with the first page, which PRP1 has
WARPBELL_SWITCH(PRP2_SECOND_PAGE_LOST, prp2_second_page_lost); // data that crosses one page has no second PRP
WARPBELL_SWITCH(LOST_IGNORED, lost_ignored); // nobody looks whether the host has given the queue up
WARPBELL_SWITCH(CLOSED_IGNORED, closed_ignored); // a closed ticket is no reason not to reserve
WARPBELL_SWITCH(SPURIOUS_ACCEPTED, spurious_accepted); // a completion is written over a word that is not pending
WARPBELL_SWITCH(WORD_NOT_ARMED, word_not_armed); // the entry is written without arming its completion slot
WARPBELL_SWITCH(DOORBELL_UNMASKED, doorbell_unmasked); // the doorbell gets the whole index, not the slot
WARPBELL_SWITCH(PARTIAL_BATCH_LOST, partial_batch_lost); // what a grant did not cover is forgotten
WARPBELL_SWITCH(STATUS_OF_NEIGHBOUR, status_of_neighbour); // an answer is delivered to the next lane's command
WARPBELL_SWITCH(EXCLUSIVE_NOT_SAVED, exclusive_not_saved); // detach saves nothing for the next kernel
WARPBELL_SWITCH(SURPLUS_GIVES_ROOM, surplus_gives_room); // a completion that nobody waits for gives room like any other
WARPBELL_SWITCH(REPEATED_IN_ONE_POLL, repeated_in_one_poll); // two completions of one command, seen at once, both count
WARPBELL_SWITCH(HAZARD_NOT_TAKEN, hazard_not_taken); // a lane attaches without a hazard slot
WARPBELL_SWITCH(NO_FENCE_HAZARD, no_fence_hazard); // the queue's state is read before the hazard slot can be seen
WARPBELL_SWITCH(HAZARD_LEFT_EARLY, hazard_left_early); // a hazard slot is released before the last doorbell has left
WARPBELL_SWITCH(HAZARD_KEPT, hazard_kept); // a hazard slot is never released
WARPBELL_SWITCH(OLD_HAZARD_LEFT_FIRST, old_hazard_left_first); // the old queue's hazard slot is released before the successor's is taken
WARPBELL_SWITCH(DEAD_IGNORED, dead_ignored); // a lane waits for a successor although none will come
WARPBELL_SWITCH(OLD_EPOCH_ACCEPTED, old_epoch_accepted); // a token of the queue before is answered for a command of this one
WARPBELL_SWITCH(LEASE_UNCHECKED, lease_unchecked); // a kernel may leave its lease
WARPBELL_SWITCH(RETRY_DESPITE_DNR, retry_despite_dnr); // a command is submitted again although the controller said not to
WARPBELL_SWITCH(RETRY_UNBOUNDED, retry_unbounded); // a command is submitted again until it ends well
WARPBELL_SWITCH(TOO_LARGE_SENT, too_large_sent); // io: a command may be larger than the most that one moves
WARPBELL_SWITCH(DATA_UNCHECKED, data_unchecked); // io: data may leave its buffer
WARPBELL_SWITCH(MISALIGNED_SENT, misaligned_sent); // io: data may begin at any byte
WARPBELL_SWITCH(WHOLE_UNCHECKED, whole_unchecked); // io: of an I/O in pieces only each piece is checked
WARPBELL_SWITCH(REFUSAL_FORGOTTEN, refusal_forgotten); // io: what was refused is answered with success
WARPBELL_SWITCH(PIECE_NOT_CLIPPED, piece_not_clipped); // io: the last piece is as large as the others
WARPBELL_SWITCH(SPLIT_GOES_ON, split_goes_on); // io: after a failure the other pieces are sent, and answer
WARPBELL_SWITCH(PIECE_AFTER_DEADLINE, piece_after_deadline); // io: a piece is sent although the last poll found the deadline over
WARPBELL_SWITCH(PIECES_IN_ROUNDS, pieces_in_rounds); // io: a lane sends its next piece when all lanes are answered
WARPBELL_SWITCH(MISSING_COMMAND_SENT, missing_command_sent); // io: a command that the SSD lacks is sent
WARPBELL_SWITCH(ZEROES_LIMIT_IGNORED, zeroes_limit_ignored); // io: Write Zeroes is as large as reads and writes are
WARPBELL_SWITCH(RANGES_UNCHECKED, ranges_unchecked); // io: Dataset Management is as large as its caller makes it
WARPBELL_SWITCH(COMMAND_UNCHECKED, command_unchecked); // io: any opcode is taken, and flags where the number of blocks is
WARPBELL_SWITCH(DEADLINE_OF_EACH_ROUND, deadline_of_each_round); // io: each round of commands has the whole deadline
WARPBELL_SWITCH(GROUP_FAILURE_HIDDEN, group_failure_hidden); // io: each lane is told of its own command only
WARPBELL_SWITCH(IN_USE_HIDDEN, in_use_hidden); // io: of two failures the first is reported, not the one that keeps its buffer
WARPBELL_CONSTANT(FUA_FORGOTTEN, fua_forgotten); // commands: Force Unit Access is not asked for
WARPBELL_SWITCH(RANGE_BY_LANE, range_by_lane); // commands: ranges of a deallocation have gaps
WARPBELL_SWITCH(COALESCED_OVER_A_GAP, coalesced_over_a_gap); // coalesce: blocks between two lanes' do not matter
WARPBELL_SWITCH(COALESCED_ELSEWHERE, coalesced_elsewhere); // coalesce: memory between two lanes' does not matter
WARPBELL_SWITCH(COALESCED_OTHER_BUFFER, coalesced_other_buffer); // coalesce: two buffers may be side by side
WARPBELL_SWITCH(COALESCED_OTHER_COMMAND, coalesced_other_command); // coalesce: a read and a write side by side are one command
WARPBELL_SWITCH(COALESCED_BY_PLACE, coalesced_by_place); // coalesce: a buffer is told by where its reference lies, not by what it says
WARPBELL_SWITCH(COALESCED_TOO_LARGE, coalesced_too_large); // coalesce: a command grows without bound, and goes in rounds
WARPBELL_SWITCH(COALESCED_FAILURE_HIDDEN, coalesced_failure_hidden); // coalesce: only the lane that sent a command has its answer
WARPBELL_SWITCH(ANY_TAKES_LAST, any_takes_last); // outstanding: of several answers the last is taken first
WARPBELL_SWITCH(ANY_IGNORES_LOSS, any_ignores_loss); // outstanding: wait_any waits on a lost queue
WARPBELL_SWITCH(ANY_GIVES_UP, any_gives_up); // outstanding: wait_any gives a command up at its deadline
WARPBELL_SWITCH(ALL_DEADLINES_ADD_UP, all_deadlines_add_up); // outstanding: wait_all has a deadline for each token
WARPBELL_SWITCH(ALL_IN_USE_HIDDEN, all_in_use_hidden); // outstanding: of two failures the first is reported
WARPBELL_SWITCH(CANCELLED_UNSEEN, cancelled_unseen); // outstanding: cancel does not look whether the command has completed
WARPBELL_SWITCH(CHUNK_CROSSED, chunk_crossed); // volume: a command may leave its chunk
WARPBELL_SWITCH(READ_NOT_REPEATED, read_not_repeated); // volume: a read that a replica fails is not tried on another
WARPBELL_SWITCH(ONE_REPLICA_WRITTEN, one_replica_written); // volume: a write goes to one replica only
WARPBELL_SWITCH(REPLICA_KEPT, replica_kept); // volume: a replica that missed a write is read from
WARPBELL_SWITCH(COMPARED_EVERYWHERE, compared_everywhere); // volume: a Compare goes to each replica
WARPBELL_SWITCH(REJECTING_REPLICA_DROPPED, rejecting_replica_dropped); // volume: a replica that finds fault with the command is dropped
WARPBELL_SWITCH(DIFFERENCE_IS_FAILURE, difference_is_failure); // volume: a replica whose blocks differ from the data has failed
WARPBELL_SWITCH(LAST_REPLICA_DROPPED, last_replica_dropped); // volume: a write may leave no replica
WARPBELL_SWITCH(MAIL_NO_FENCE_POST, mail_no_fence_post); // agents, no P1: a request may be seen before what is asked for
WARPBELL_SWITCH(MAIL_NO_FENCE_TAKE, mail_no_fence_take); // agents, no P2: what is asked for is read before the request was seen
WARPBELL_SWITCH(MAIL_NO_FENCE_ANSWER, mail_no_fence_answer); // agents, no P3: an answer may be seen before the data
WARPBELL_SWITCH(MAIL_NO_FENCE_DONE, mail_no_fence_done); // agents, no P4: data is read before the answer was seen
WARPBELL_SWITCH(MAIL_SLOT_REUSED, mail_slot_reused); // agents: a slot is used again although its request has no answer
WARPBELL_SWITCH(REQUEST_TAKEN_TWICE, request_taken_twice); // agents: a request in flight is submitted again
WARPBELL_SWITCH(EVERY_REQUEST_QUEUE_SERVED, every_request_queue_served); // agents: each serves the others' request_queues, too
WARPBELL_SWITCH(AGENT_LEAVES_EARLY, agent_leaves_early); // agents: one ends with requests in flight
WARPBELL_SWITCH(BATCH_ADDED_UNSEEN, batch_added_unseen); // batches: requests are read before all threads have added theirs
WARPBELL_SWITCH(BATCH_ANSWERED_UNSEEN, batch_answered_unseen); // batches: answers are read before all warps have theirs
WARPBELL_SWITCH(BATCH_OF_OTHERS, batch_of_others); // batches: each warp submits the others' requests, too
WARPBELL_SWITCH(BATCH_ONE_ROUND, batch_one_round); // batches: what is more than one command of each lane is not sent
WARPBELL_SWITCH(BATCH_FAILURE_HIDDEN, batch_failure_hidden); // batches: a request is answered by its last commands
WARPBELL_SWITCH(BATCH_BYTES_BEHIND, batch_bytes_behind); // batches: bytes behind those that failed count
WARPBELL_SWITCH(REQUEST_PIECE_LOST, request_piece_lost); // requests: a command for which there is no room is passed over
WARPBELL_SWITCH(REQUEST_DONE_EARLY, request_done_early); // requests: one is answered when all its commands are sent
WARPBELL_SWITCH(REQUEST_BYTES_BEHIND, request_bytes_behind); // requests: bytes behind those that failed count
WARPBELL_SWITCH(REQUEST_GOES_ON, request_goes_on); // requests: after a failure the rest is sent
WARPBELL_SWITCH(REQUEST_STOPS_AT_ONCE, request_stops_at_once); // requests: not what lies before a failure either
WARPBELL_SWITCH(ORDER_IGNORED, order_ignored); // ordered: a command does not wait for those before it
WARPBELL_SWITCH(ORDER_KEPT_AFTER_FAILURE, order_kept_after_failure); // ordered: what follows a failure is sent
WARPBELL_SWITCH(DELIVERED_AS_DONE, delivered_as_done); // ordered: answers are handed over as they come
WARPBELL_SWITCH(REQUEST_BEGUN_AGAIN, request_begun_again); // requests: one that was not answered is begun again
WARPBELL_SWITCH(REQUEST_LAST_FAILURE, request_last_failure); // requests: of two failures the last piece's is reported
WARPBELL_SWITCH(REQUEST_IN_USE_HIDDEN, request_in_use_hidden); // requests: a failure that keeps its buffer does not come first
WARPBELL_SWITCH(REQUEST_ANSWER_OF_LANE, request_answer_of_lane); // requests: each lane is told of its own commands only
WARPBELL_SWITCH(REQUEST_UNSENT_FORGOTTEN, request_unsent_forgotten); // requests: what was given up unsent was done
WARPBELL_SWITCH(REQUEST_WAITS_FOR_ITSELF, request_waits_for_itself); // requests: a lane without ids waits for some
WARPBELL_SWITCH(REQUEST_FLAGS_OF_FIRST, request_flags_of_first); // requests: only the first command has the flags
WARPBELL_SWITCH(ORDER_TOO_DEEP, order_too_deep); // ordered: there may be more steps than places
WARPBELL_SWITCH(ORDER_BROKEN_FOR_EVER, order_broken_for_ever); // ordered: after a failure nothing is ever sent again
WARPBELL_SWITCH(ORDER_IGNORES_LOSS, order_ignores_loss); // ordered: a step waits on a lost queue
WARPBELL_SWITCH(DELIVERY_IMPATIENT, delivery_impatient); // ordered: a step is refused whose ids those before it have
WARPBELL_SWITCH(BATCH_BEGUN_UNSEEN, batch_begun_unseen); // batches: requests are added before all slots are empty
WARPBELL_SWITCH(BATCH_SLOT_TAKEN, batch_slot_taken); // batches: a request takes the place of another
WARPBELL_SWITCH(BATCH_REFUSAL_FORGOTTEN, batch_refusal_forgotten); // batches: what is refused has no answer
WARPBELL_SWITCH(BATCH_NUMBERED_UNSEEN, batch_numbered_unseen); // batches: lanes look for their commands before these are numbered
WARPBELL_SWITCH(BATCH_NOTED_UNSEEN, batch_noted_unseen); // batches: the next round begins before answers of the last are seen
WARPBELL_SWITCH(BATCH_GOES_ON, batch_goes_on); // batches: after a failure the rest of a request is sent
WARPBELL_SWITCH(BATCH_IN_USE_HIDDEN, batch_in_use_hidden); // batches: of two failures the first is reported
WARPBELL_SWITCH(BATCH_FAILURE_OF_WARP, batch_failure_of_warp); // batches: each warp is told of its own requests only
WARPBELL_SWITCH(BATCH_DEADLINE_OF_EACH_ROUND, batch_deadline_of_each_round); // batches: each round of commands has the whole deadline
WARPBELL_SWITCH(MAIL_ANY_BUFFER, mail_any_buffer); // agents: data may lie in another buffer than the agents'
WARPBELL_SWITCH(MAIL_OPCODE_UNCHECKED, mail_opcode_unchecked); // agents: any command is posted
WARPBELL_SWITCH(MAIL_SLOT_LOST, mail_slot_lost); // agents: a slot is not free after its answer
WARPBELL_SWITCH(LATE_SLOT_LOST, late_slot_lost); // agents: the slot of a late request never comes back
WARPBELL_SWITCH(PUT_OFF_REFUSED, put_off_refused); // agents: a request for which there is no room is answered at once
WARPBELL_SWITCH(PUT_OFF_FOR_EVER, put_off_for_ever); // agents: a request for which there is no room waits without end
WARPBELL_SWITCH(STOP_IGNORED, stop_ignored); // agents: after a stop requests are submitted
WARPBELL_SWITCH(LOST_QUEUE_KEPT, lost_queue_kept); // agents: one stays with its lost queue
WARPBELL_SWITCH(READ_REPEATED_IN_USE, read_repeated_in_use); // volume: a read goes to another replica with a buffer that is in use
WARPBELL_SWITCH(AVOIDED_READ, avoided_read); // volume: replicas that did not answer are read from
WARPBELL_SWITCH(FAILED_BYTES_COUNTED, failed_bytes_counted); // volume: bytes of commands that failed count
WARPBELL_SWITCH(ZONES_IGNORED, zones_ignored); // volume: a stripe goes on over SSDs that have ended
WARPBELL_SWITCH(UNITS_UNSHIFTED, units_unshifted); // volume: all SSDs have blocks of one size
WARPBELL_SWITCH(ONE_SSD_FLUSHED, one_ssd_flushed); // volume: a flush goes to one SSD only
WARPBELL_SWITCH(SLOTLESS_WARP_USED, slotless_warp_used); // volume: a warp without a slot on one of the SSDs is served
WARPBELL_SWITCH(CACHE_PINNED_TAKEN, cache_pinned_taken); // cache: a line may be taken from whoever has it pinned
WARPBELL_SWITCH(CACHE_STUCK_TAKEN, cache_stuck_taken); // cache: memory that an SSD may still use gets another page
WARPBELL_CONSTANT(CACHE_LOADED_TWICE, cache_loaded_twice); // cache: each who misses a page reads it
WARPBELL_SWITCH(CACHE_ANY_PAGE, cache_any_page); // cache: nobody looks whether a line has still the page that was found there
WARPBELL_SWITCH(CACHE_UNLINKED_EARLY, cache_unlinked_early); // cache: a page is not found any more while it is written back
WARPBELL_SWITCH(CACHE_READY_EARLY, cache_ready_early); // cache: a page is there before it was read
WARPBELL_SWITCH(CACHE_FAILURE_HIDDEN, cache_failure_hidden); // cache: a page that could not be read is there
WARPBELL_SWITCH(CACHE_DIRTY_LOST, cache_dirty_lost); // cache: a dirty page leaves without being written
WARPBELL_SWITCH(CACHE_UNWRITTEN_LEAVES, cache_unwritten_leaves); // cache: a page leaves although it could not be written
WARPBELL_SWITCH(CACHE_TWO_WRITERS, cache_two_writers); // cache: two flushes write one page at once
WARPBELL_SWITCH(CACHE_FLUSH_IMPATIENT, cache_flush_impatient); // cache: a flush does not wait for pages that others write
WARPBELL_SWITCH(CACHE_CLEANED_LATE, cache_cleaned_late); // cache: a page is clean when its write ends, whatever was stored meanwhile
WARPBELL_SWITCH(CACHE_WAITS_FOR_EVER, cache_waits_for_ever); // cache: where all lines are pinned one waits without end
WARPBELL_CONSTANT(CACHE_READ_ONLY_STORED, cache_read_only_stored); // cache: pages of a cache for reading are changed
WARPBELL_SWITCH(CACHE_PAGE_UNCHECKED, cache_page_unchecked); // cache: there is a page behind the last
WARPBELL_CONSTANT(CACHE_PINS_CUT, cache_pins_cut); // cache: pins are counted in 16 bits
WARPBELL_SWITCH(CACHE_KEPT_TAKEN, cache_kept_taken); // cache: pages that are to be kept leave like any other
WARPBELL_SWITCH(CACHE_ERROR_SWALLOWED, cache_error_swallowed); // cache: nobody is told of a page that could not be written
WARPBELL_SWITCH(PREFETCH_OVER_CAP, prefetch_over_cap); // prefetch: more pages are read ahead than the cap allows
WARPBELL_SWITCH(PREFETCH_TAKES_DIRTY, prefetch_takes_dirty); // prefetch: a page that the SSD has something older of makes room, unwritten
WARPBELL_SWITCH(PREFETCH_TAKES_AHEAD, prefetch_takes_ahead); // prefetch: pages that were read ahead and not used make room for others
WARPBELL_SWITCH(PREFETCH_TAKES_LOADING, prefetch_takes_loading); // prefetch: a line that is being read gets another page
WARPBELL_SWITCH(PREFETCH_FAILURE_HIDDEN, prefetch_failure_hidden); // prefetch: a page that could not be read is there
WARPBELL_SWITCH(PREFETCH_FAILURE_TOLD, prefetch_failure_told); // prefetch: who waits for a page is told why another warp could not read it ahead
WARPBELL_SWITCH(PREFETCH_TOKEN_LOST, prefetch_token_lost); // prefetch: a warp detaches with reads on their way
WARPBELL_SWITCH(PREFETCH_NOT_COLLECTED, prefetch_not_collected); // prefetch: who waits for others does not take up what has come for it
WARPBELL_SWITCH(PREFETCH_VAIN_UNCOUNTED, prefetch_vain_uncounted); // prefetch: nobody counts pages that were read in vain
WARPBELL_SWITCH(CACHE_PIECES_LATE, cache_pieces_late); // cache: commands of a page are sent after the page's deadline
WARPBELL_SWITCH(CACHE_SENT_IN_VAIN, cache_sent_in_vain); // cache: lines are given to pages that a lost queue will not read
WARPBELL_SWITCH(ARRAY_STRADDLE_LOST, array_straddle_lost); // array: of an element only what lies in its first page is moved
WARPBELL_SWITCH(ARRAY_INDEX_UNCHECKED, array_index_unchecked); // array: there is an element behind the last
WARPBELL_SWITCH(ARRAY_END_UNCHECKED, array_end_unchecked); // array: an element that ends behind the last page is stored as far as it goes
WARPBELL_SWITCH(CACHE_LATE_STAMP_OLDEST, cache_late_stamp_oldest); // cache: a line that is used while lines are compared looks like the oldest
WARPBELL_SWITCH(CACHE_WORD_UNCHECKED, cache_word_unchecked); // cache: a word that was read without a pin counts, whatever has become of its line
WARPBELL_SWITCH(CACHE_WORD_UNSYNCED, cache_word_unsynced); // cache: a word is read without a pin before other lanes have stored it
WARPBELL_SWITCH(CACHE_WORD_EARLY, cache_word_early); // cache: a word is read without a pin before its page is there
WARPBELL_SWITCH(CACHE_WORD_UNNOTED, cache_word_unnoted); // cache: the policy is not told of a word that was read without a pin
WARPBELL_SWITCH(CACHE_FLUSH_LATE, cache_flush_late); // cache: a flush begins writes after its deadline
WARPBELL_SWITCH(PREFETCH_SLOT_KEPT, prefetch_slot_kept); // prefetch: of named pages only those that are used make room for others
WARPBELL_SWITCH(PREFETCH_NOT_GIVEN_UP, prefetch_not_given_up); // prefetch: a read that is never answered is on its way until its page is wanted
WARPBELL_SWITCH(STREAM_COPY_UNAWAITED, stream_copy_unawaited); // stream: a tile is there before its copy is done
WARPBELL_SWITCH(STREAM_COPY_UNORDERED, stream_copy_unordered); // stream: no fence between what an SSD wrote and the copy that reads it
WARPBELL_SWITCH(STREAM_SLOT_OVERWRITTEN, stream_slot_overwritten); // stream: a tile is loaded over one that was not released
WARPBELL_SWITCH(STREAM_STAGE_OVERWRITTEN, stream_stage_overwritten); // stream: a tile is copied over one that was not released
WARPBELL_SWITCH(STREAM_SLOT_OF_NEXT, stream_slot_of_next); // stream: a tile is copied from the slot of the step after it
WARPBELL_SWITCH(STREAM_PHASE_STUCK, stream_phase_stuck); // stream: the second copy into a stage is waited for as the first
WARPBELL_SWITCH(STREAM_FAILURE_HIDDEN, stream_failure_hidden); // stream: a tile that could not be loaded is there
WARPBELL_SWITCH(STREAM_FAILURE_OF_LANE, stream_failure_of_lane); // stream: of a tile in parts only the first part's answer counts
WARPBELL_SWITCH(STREAM_WAITS_FOR_EVER, stream_waits_for_ever); // stream: a tile that does not come is waited for without end
WARPBELL_SWITCH(STREAM_SLOT_IN_USE_TAKEN, stream_slot_in_use_taken); // stream: a slot that an SSD may still write to gets another tile
WARPBELL_SWITCH(STREAM_RESIDENT_LOADED, stream_resident_loaded); // stream: a tile that is still in the ring is loaded again
WARPBELL_SWITCH(STREAM_TILE_UNCHECKED, stream_tile_unchecked); // stream: a tile may be larger than its slot
WARPBELL_SWITCH(STREAM_STARVED, stream_starved); // stream: a load begins although a lane has no id for it
WARPBELL_SWITCH(STREAM_LEFT_UNREPORTED, stream_left_unreported); // stream: nobody learns of a load that did not come and was not waited for
WARPBELL_SWITCH(STREAM_RESIDENT_UNCHECKED, stream_resident_unchecked); // stream: a tile that should be in the ring may be larger than its slot
WARPBELL_SWITCH(FILE_SEAM_CROSSED, file_seam_crossed); // file: a command goes on behind the end of its extent
WARPBELL_SWITCH(FILE_BUCKET_SHORT, file_bucket_short); // file: the last extent that a bucket names is not looked at
WARPBELL_SWITCH(FILE_BLOCK_BEFORE, file_block_before); // file: a block is found where the one before it lies
WARPBELL_SWITCH(FILE_HOLE_KEPT, file_hole_kept); // file: where a hole is, memory stays as it was
WARPBELL_SWITCH(FILE_TAIL_KEPT, file_tail_kept); // file: what lies behind the end of a file in its last block is read
WARPBELL_SWITCH(FILE_END_UNCHECKED, file_end_unchecked); // file: there are blocks behind the last
WARPBELL_SWITCH(FILE_HOLE_UNCHECKED, file_hole_unchecked); // file: zeroes go where no command may move data to
WARPBELL_SWITCH(SERVICE_PUBLISHED_UNSEEN, service_published_unseen); // laboratory: a slot moves on before its entry and its owner can be seen
// clang-format on

} // namespace mutate
} // namespace warpbell

#undef WARPBELL_SWITCH_SECOND
#undef WARPBELL_SWITCH_PICK
#undef WARPBELL_SWITCH_1
#undef WARPBELL_SWITCH_OF
#undef WARPBELL_SWITCH_EXPAND
#undef WARPBELL_SWITCH
#undef WARPBELL_CONSTANT
