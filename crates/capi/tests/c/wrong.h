/* A table of wrong inputs: for each its code, and one line of text that names object, value and limit. */
#ifndef WRONG_H
#define WRONG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <warpbell/warpbell.h>

static int rows, failures;

static void complain(int line, const char* call, const char* why) {
    ++failures;
    fprintf(stderr, "line %d: %s: %s: %s: %s\n", line, call, why, "the message is", warpbell_error_message());
}

static void row_at(int line, const char* call, warpbell_error found, warpbell_error wanted,
                   const char* object, const char* value, const char* limit) {
    const char* text = warpbell_error_message();
    const char* parts[3];
    int i;
    parts[0] = object, parts[1] = value, parts[2] = limit;
    ++rows;
    printf("%s -> %s: %s\n", call, warpbell_error_name(found), found == WARPBELL_OK ? "" : text);
    if (found != wanted) {
        complain(line, call, warpbell_error_name(found));
        return;
    }
    if (text[0] == 0 || strchr(text, '\n') != NULL) {
        complain(line, call, "not one line");
    }
    for (i = 0; i < 3; ++i) {
        if (strstr(text, parts[i]) == NULL) {
            complain(line, call, parts[i]);
        }
    }
}

/* The call fails with this code; its text names the object, its value and what is allowed. */
#define ROW(call, code, object, value, limit) row_at(__LINE__, #call, call, code, object, value, limit)

/* Something that the table needs, and that must not fail. */
static void need_at(int line, const char* call, warpbell_error error) {
    if (error != WARPBELL_OK) {
        fprintf(stderr, "line %d: %s: %s\n", line, call, warpbell_error_message());
        exit(1);
    }
}
#define NEED(call) need_at(__LINE__, #call, call)

#endif
