// Kernel `volume_command_test`: each lane, or each warp as a whole, gives one command to a volume, and notes
// its status, and of a read how much of what it brought is wrong.
#include <warpbell/warpbell.cuh>

using namespace warpbell;

struct volume_command_args {
    warpbell_volume_ref volume;
    warpbell_volume_buffer_ref buffer; // room for each lane's blocks
    uint64_t records;                  // command_record[lanes or warps]
    uint64_t seed;                     // of the data; 0: zeroes
    uint64_t other;                    // the block whose data is another
    uint64_t first;                    // block
    uint32_t operation;
    uint32_t flags;
    uint32_t blocks; // of each
    uint32_t whole;
    uint32_t without_data;
    uint32_t pad0;
};

struct command_record {
    uint32_t answers;
    uint32_t status;
    uint64_t wrong; // words
};

namespace {

WARPBELL_D uint64_t content(const volume_command_args& args, uint64_t block, uint64_t word) {
    if (args.seed == 0) {
        return 0;
    }
    const uint64_t mixed = (args.seed + block) * 0x9e3779b97f4a7c15u + word * 0xbf58476d1ce4e5b9u;
    return (mixed ^ mixed >> 29) + (block == args.other ? 1u : 0u);
}

template <sharing Mode> WARPBELL_D void run_as(const volume_command_args& args) {
    const this_warp_t warp;
    volume<Mode, 4> v(warp, args.volume, port::block_index());
    const bool whole = args.whole != 0, speaks = !whole || port::lane() == 0;
    const uint64_t unit = whole ? port::block_index() : port::block_index() * 32u + port::lane();
    const uint64_t start = args.first + unit * args.blocks, words_per_block = v.block_bytes() / 8u;
    const uint64_t bytes = static_cast<uint64_t>(args.blocks) * v.block_bytes();
    const bool reads = args.operation == static_cast<uint32_t>(opcode::read);
    const volume_span data = volume_span(args.buffer).subspan(unit * bytes, bytes);
    uint64_t* const words = data.template data<uint64_t>();
    const auto expected = [&](uint64_t i) {
        return content(args, start + i / words_per_block, i % words_per_block);
    };
    for (uint64_t i = 0; speaks && i < bytes / 8u; ++i) {
        words[i] = reads ? ~0ull : expected(i);
    }
    warp.sync();
    const volume_command what = {static_cast<opcode>(args.operation), extent{lba(start), args.blocks},
                                 args.without_data != 0 ? volume_span() : data, args.flags};
    const status said = whole ? run(warp, v, what) : run_each(warp, v, what);
    command_record* const record = reinterpret_cast<command_record*>(args.records) + unit;
    // Of one I/O all lanes are told the same.
    const bool alike = !whole || warp.match(said.bits) == warp.mask();
    if (speaks) {
        ++record->answers;
        record->status = alike ? said.bits : ~0u;
        for (uint64_t i = 0; reads && said.ok() && i < bytes / 8u; ++i) {
            record->wrong += words[i] != expected(i) ? 1u : 0u;
        }
    }
    v.detach(warp);
}

} // namespace

WARPBELL_KERNEL(volume_command_test, volume_command_args) {
    const auto* first = reinterpret_cast<const warpbell_volume_member*>(args.volume.members);
    if (first->ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        run_as<sharing::exclusive>(args);
    } else {
        run_as<sharing::shared>(args);
    }
}
