/* Does one thing, as its arguments say, and prints what came of it: `open DEVICE`, `compile TARGET`. */
#include <stdio.h>
#include <string.h>
#include <warpbell/warpbell.h>

static const char* const SOURCE = "#include <warpbell/warpbell.cuh>\n"
                                  "struct nothing_args { uint64_t one; };\n"
                                  "WARPBELL_KERNEL(nothing, nothing_args) {}\n";

int main(int argc, char** argv) {
    warpbell_ssd* ssd = NULL;
    warpbell_program* program = NULL;
    warpbell_error error;
    if (argc != 3) {
        return 100;
    }
    if (strcmp(argv[1], "open") == 0) {
        error = warpbell_ssd_open(argv[2], NULL, &ssd);
        if (error == WARPBELL_OK) {
            error = warpbell_ssd_close(ssd);
        }
    } else {
        error = warpbell_program_compile(argv[2], "nothing.cu", SOURCE, NULL, &program);
        if (error == WARPBELL_OK) {
            error = warpbell_program_close(program);
        }
    }
    printf("%s: %s\n", warpbell_error_name(error), error == WARPBELL_OK ? "" : warpbell_error_message());
    return 0;
}
