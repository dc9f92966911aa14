// Kernel `flat_alias_test`: a caller stores zeroes over what says that a session or an array may be used, and
// calls. The optimiser may not think that nobody looks at them.
#include "flat_calls.cuh"

WARPBELL_KERNEL(flat_alias_test, flat_args) {
    uint32_t* const said = reinterpret_cast<flat_note*>(args.notes)->said;
    uint32_t element = 0;
    warpbell_session session;
    warpbell_array array;
    said[0] = warpbell_attach(&session, &args.ns, 0);
    said[1] = warpbell_array_open(&array, &session, &args.cache, &args.pages, 0, 1, 4);

    const uint64_t of_session = session.opaque[0];
    session.opaque[0] = 0;
    said[2] = warpbell_flush(&session, 0);
    session.opaque[0] = of_session;

    const uint64_t of_array = array.opaque[0];
    array.opaque[0] = 0;
    said[3] = warpbell_array_get(&array, 0, &element, 0);
    array.opaque[0] = of_array;

    said[4] = warpbell_array_close(&array);
    said[5] = warpbell_detach(&session);
}
