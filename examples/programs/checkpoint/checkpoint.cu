// Checkpoints of a model whose state is in shards. Each rank, some warps, saves its shard in large writes one
// behind the other. The last warp makes all of it durable, and then writes the record that names it. There
// are two places for checkpoints, each with a record: a save that ends before that hides no older checkpoint.
#include "program.cuh"
using namespace programs;

constexpr u64 shards_max = 8, record_bytes = 4096, magic = 0x6b63656863627277u;

struct shard {
    u64 offset, bytes, sum; // in the state
};
struct commit_record {
    u64 magic, epoch, count;
    shard shards[shards_max];
    u64 check;       // of all before it
    u64 unused[484]; // to record_bytes
};

enum : u32 { restores, saves, saves_all_but_the_record }; // the last: as if the power failed then
struct checkpoint_args {
    stage_ref stage;
    u64 room;               // the first byte for checkpoints: two records, then both places
    u64 state, state_bytes; // of the model, in memory; each place has as much room
    u64 record;             // commit_record: what to save, or what was restored; its sums are 0
    u64 found;              // commit_record[2] of each warp
    u64 done;               // u64: warps that are done; 0
    u32 chunk_bytes;        // whole blocks, at least two records
    u32 warps;              // that take part
    u32 does, pad;
};

WARPBELL_D void copy(u64* to, const u64* from, u64 words) {
    for (u64 i = port::lane(); i < words; i += WARPBELL_WARP_LANES) {
        to[i] = from[i];
    }
}
// Each word times an odd number of its own: one that differs makes another sum.
WARPBELL_D u64 sum_of(const u64* words, u64 count, u64 nth, u32 first, u32 step) {
    u64 sum = 0;
    for (u64 i = first; i < count; i += step) {
        sum += words[i] * (2u * (nth + i) + 1u);
    }
    return sum;
}

struct warps_part {
    const checkpoint_args& args;
    session<sharing::shared>& ssd;
    notes told;
    const u64 warp;
    const dma_span memory;

    WARPBELL_D commit_record& record() const { return *reinterpret_cast<commit_record*>(args.record); }
    WARPBELL_D void save() {
        if (move_all(opcode::write, record()) && is_last() && durable() && args.does == saves) {
            record().check = check_of(record());
            this_warp().sync();
            const u64 place = record().epoch % 2u * record_bytes;
            (void)(move(opcode::write, place, &record().magic, record_bytes) && durable());
        }
    }
    WARPBELL_D void restore() {
        commit_record* const found = reinterpret_cast<commit_record*>(args.found) + 2u * warp;
        if (!move(opcode::read, 0, &found->magic, 2u * record_bytes)) {
            return;
        }
        const bool good[2] = {is_valid(found[0], 0), is_valid(found[1], 1)};
        const u32 place = good[1] && (!good[0] || found[1].epoch > found[0].epoch) ? 1 : 0;
        if (told.all_good(good[place] ? status() : status(code::mismatch)) &&
            move_all(opcode::read, found[place]) && is_last()) {
            for (u64 i = 0; i < found[place].count; ++i) {
                const bool same = found[place].shards[i].sum == record().shards[i].sum;
                (void)told.all_good(same ? status() : status(code::mismatch));
            }
            copy(&record().magic, &found[place].magic, record_bytes / 8u);
        }
    }
    WARPBELL_D static u64 check_of(const commit_record& its) { return sum_of(&its.magic, 27, 1, 0, 1); }
    // What was read is not trusted: it says where in memory to write.
    WARPBELL_D bool is_valid(const commit_record& its, u64 place) const {
        bool good = its.magic == magic && its.epoch % 2u == place && its.count <= shards_max;
        for (u64 i = 0; good && i < its.count; ++i) {
            const u64 offset = its.shards[i].offset, bytes = its.shards[i].bytes;
            good = offset % record_bytes == 0 && bytes % 8u == 0 && offset <= args.state_bytes &&
                   bytes <= args.state_bytes - offset;
        }
        return good && its.check == check_of(its);
    }
    // This warp's chunks: of its rank's shard; in a restore by any number of warps, of all shards.
    WARPBELL_D bool move_all(opcode op, const commit_record& its) {
        const u64 of_rank = op == opcode::read ? args.warps : args.warps / its.count;
        bool good = true;
        for (u64 rank = 0, number = 0; rank < its.count; ++rank) {
            const u64 offset = its.shards[rank].offset, all = its.shards[rank].bytes;
            for (u64 at = 0; at < all && good; at += args.chunk_bytes, ++number) {
                const bool its_rank = op == opcode::read || warp / of_rank == rank;
                if (its_rank && number % of_rank == warp % of_rank) {
                    const u64 bytes = all - at < args.chunk_bytes ? all - at : args.chunk_bytes;
                    const u64 place = 2u * record_bytes + its.epoch % 2u * args.state_bytes + offset + at;
                    u64* const words = reinterpret_cast<u64*>(args.state + offset + at);
                    good = move(op, place, words, bytes);
                    const u64 sum = sum_of(words, bytes / 8u, at / 8u, port::lane(), WARPBELL_WARP_LANES);
                    port::add_relaxed_gpu(&record().shards[rank].sum, sum);
                    told.advance(1);
                }
            }
        }
        return good;
    }
    // Words, between memory and the SSD; or a part of memory that the host moves to it or from there.
    PROGRAM_CALL bool move(opcode op, u64 at, u64* words, u64 bytes) {
        const u64 block = ssd.block_bytes(), first = args.stage.cache.first_block + (args.room + at) / block;
        const extent where{lba(first), static_cast<u32>((bytes + block - 1u) / block)};
        const u64 loaded = args.stage.loaded;
        u64* const there = loaded != 0 ? reinterpret_cast<u64*>(loaded + args.room + at) : memory.data<u64>();
        copy(there, words, op == opcode::write ? bytes / 8u : 0);
        status said;
        if (loaded == 0) {
            said = op == opcode::write ? write(this_warp(), ssd, where, memory)
                                       : read(this_warp(), ssd, where, memory);
        }
        copy(words, there, op == opcode::read && said.ok() ? bytes / 8u : 0);
        this_warp().sync(); // the memory is free again, and all lanes see what was read
        return told.all_good(said);
    }
    PROGRAM_CALL bool durable() { return args.stage.loaded != 0 || told.all_good(flush(this_warp(), ssd)); }
    // Whether all other warps are done. One that failed never is.
    WARPBELL_D bool is_last() const {
        u64* const done = reinterpret_cast<u64*>(args.done);
        this_warp().sync();
        const u64 before = port::lane() == 0 ? port::fetch_add_acq_rel_gpu(done, 1) : 0;
        this_warp().sync();
        return this_warp().broadcast(before) == args.warps - 1u;
    }
};

WARPBELL_D void checkpoint(const checkpoint_args& args) {
    const checkpoint_args own = args;
    if (port::block_index() < own.warps) {
        session<sharing::shared> ssd(this_warp(), own.stage.ns, port::block_index());
        const u64 warp = port::block_index(), bytes = own.chunk_bytes;
        warps_part its{own, ssd, notes(own.stage), warp,
                       dma_span(own.stage.buffer).subspan(warp * bytes, bytes)};
        own.does == restores ? its.restore() : its.save();
        ssd.detach(this_warp());
    }
}
WARPBELL_KERNEL(checkpoint_cached, checkpoint_args) { checkpoint(args); }
WARPBELL_KERNEL(checkpoint_loaded, checkpoint_args) { checkpoint(args); }
