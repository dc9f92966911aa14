// Kernel `flat_alias_test`: a caller stores zeroes over what says that a session or an array may be used. The
// optimiser may not think that nobody looks at them. It can see all of these functions, and would.
#include "flat_calls.cuh"

namespace {

[[gnu::noinline]] bool is_attached(warpbell_session* session) {
    return warpbell::flat::is_attached(warpbell::flat::session_head::of(session));
}
[[gnu::noinline]] bool is_open(warpbell_array* array) { return warpbell::flat::session_of(array) != nullptr; }

} // namespace

WARPBELL_KERNEL(flat_alias_test, flat_args) {
    uint32_t* const said = reinterpret_cast<flat_note*>(args.notes)->said;
    warpbell_session session;
    warpbell_array array;
    said[0] = warpbell_attach(&session, &args.ns, 0);
    said[1] = warpbell_array_open(&array, &session, &args.cache, &args.pages, 0, 1, 4);

    const uint64_t of_session = session.opaque[0];
    session.opaque[0] = 0;
    said[2] = is_attached(&session);
    session.opaque[0] = of_session;

    const uint64_t of_array = array.opaque[0];
    array.opaque[0] = 0;
    said[3] = is_open(&array);
    array.opaque[0] = of_array;

    said[4] = warpbell_array_close(&array);
    said[5] = warpbell_detach(&session);
}
