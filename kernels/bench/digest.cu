// Kernel `digest`: CRC-32C of every chunk of a file; the host combines them.
#include "common.cuh"

namespace kernels {

template <sharing Mode> class digest_warp {
  public:
    WARPBELL_D explicit digest_warp(const warpbell_digest_args& args)
        : args_(args), file_(args.file), session_(this_warp(), args.ns, warp_number(), retry(args.retries)),
          chunk_bytes_(args.chunk_blocks << args.ns.block_shift) {}

    WARPBELL_D void run() {
        const this_warp_t warp;
        const u64 start_ns = port::clock_ns();
        const u64 stride = static_cast<u64>(warps_of_launch()) * WARPBELL_WARP_LANES;
        u64 first = static_cast<u64>(warp_number()) * WARPBELL_WARP_LANES;
        for (; first * chunk_bytes_ < file_.bytes(); first += stride) {
            step(warp, first + port::lane());
            if (warp.ballot(stop_asked(args_.mailbox)) != 0) {
                break;
            }
        }
        tally_.add(session_.retries());
        write_result(warp, args_.results, tally_, chunk_bytes_, warp_number() % args_.ns.queue_count,
                     start_ns);
        session_.detach(warp);
    }

  private:
    WARPBELL_D void step(const this_warp_t& warp, u64 chunk) {
        const u64 begin = chunk * chunk_bytes_;
        const file_place place =
            begin < file_.bytes() ? file_.find(begin >> file_.block_shift()) : file_place{};
        const u64 bytes = bytes_of(place, begin);
        const u64 number = static_cast<u64>(warp_number()) * WARPBELL_WARP_LANES + port::lane();
        const dma_span data = dma_span(args_.buffer).subspan(number * chunk_bytes_, chunk_bytes_);
        optional<extent> where;
        if (bytes != 0 && !buffer_lost_) {
            const u64 blocks = (bytes + session_.block_bytes() - 1u) >> args_.ns.block_shift;
            where = extent{lba(place.lba), static_cast<u32>(blocks)};
        }
        const status s = read_each(warp, session_, where, data, args_.timeout_ns);
        if (!where) {
            return;
        }
        buffer_lost_ = s.buffer_in_use();
        warpbell_chunk_result result = {0, s.bits};
        if (s.ok()) {
            ++tally_.reads;
            result.crc32c = crc32c(reinterpret_cast<const u32*>(args_.crc_tables),
                                   data.template data<const u64>(), bytes);
        } else {
            tally_.error(place.lba, s);
            // A digest is of all blocks or of none.
            ask_to_stop(args_.mailbox);
        }
        reinterpret_cast<warpbell_chunk_result*>(args_.chunks)[chunk] = result;
    }

    // Of the chunk at `begin`: up to the end of its extent or of the file. Holes are the host's.
    WARPBELL_D u64 bytes_of(const file_place& place, u64 begin) const {
        if (place.blocks == 0 || place.hole) {
            return 0;
        }
        const u64 rest = file_.bytes() - begin, extent = place.blocks << file_.block_shift();
        const u64 most = extent < chunk_bytes_ ? extent : chunk_bytes_;
        return rest < most ? rest : most;
    }

    const warpbell_digest_args& args_;
    const file file_;
    session<Mode, retry> session_;
    const u32 chunk_bytes_;
    bool buffer_lost_ = false; // after a timeout the controller may still write to this lane's buffer
    tally tally_;
};

} // namespace kernels

WARPBELL_KERNEL(digest, warpbell_digest_args) {
    using namespace kernels;
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        digest_warp<sharing::exclusive>(args).run();
    } else {
        digest_warp<sharing::shared>(args).run();
    }
}
