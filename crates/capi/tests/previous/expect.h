/* Assertions of the C tests: each says where, what came, and what was wanted. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <warpbell/warpbell.h>

static int checks;

static void wrong(int line, const char* what, const char* found) {
    fprintf(stderr, "line %d: %s: %s\n", line, what, found);
    exit(1);
}

static void expect_ok_at(int line, const char* what, warpbell_error error) {
    ++checks;
    if (error != WARPBELL_OK) {
        fprintf(stderr, "%s: ", warpbell_error_name(error));
        wrong(line, what, warpbell_error_message());
    }
}

static void expect_at(int line, const char* what, warpbell_error error, warpbell_error wanted,
                      const char* text) {
    ++checks;
    if (error != wanted) {
        fprintf(stderr, "%s in place of %s: ", warpbell_error_name(error), warpbell_error_name(wanted));
        wrong(line, what, warpbell_error_message());
    }
    if (strstr(warpbell_error_message(), text) == NULL) {
        fprintf(stderr, "no '%s' in: ", text);
        wrong(line, what, warpbell_error_message());
    }
}

static void expect_that_at(int line, const char* what, int holds) {
    ++checks;
    if (!holds) {
        wrong(line, what, "does not hold");
    }
}

#define OK(call) expect_ok_at(__LINE__, #call, call)
/* The call fails with this code, and its message has this text in it. */
#define FAILS(call, code, text) expect_at(__LINE__, #call, call, code, text)
#define THAT(condition) expect_that_at(__LINE__, #condition, condition)

#endif
