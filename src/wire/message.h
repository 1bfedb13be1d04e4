/*
 * Messages: what the frames between judge, warm parents and workers say.
 *
 * In the lists, `->` is from the judge, `<-` to it; fds stand in braces. Every request of the judge
 * is answered by MESSAGE_OK with the values named after `=`, or by MESSAGE_FAIL
 * (kind, line or 0, text). The worker's module exposes the same names to Python.
 */
#ifndef KBV_WIRE_MESSAGE_H
#define KBV_WIRE_MESSAGE_H

/* clang-format off */
#define MESSAGE_LIST(X)                                                                            \
    X(OK)                                                                                          \
    X(FAIL)       /* <- kind (enum fail_kind), line, text */                                       \
    /* Warm parent. */                                                                             \
    X(HELLO)      /* <- torch, python, cuda versions ("" without) */                               \
    X(SPAWN)      /* -> role, flags, sandbox mode, device, scratch, builds, memory limit,           \
                        processes {channel, page, report, output} = pid of the supervisor */       \
    /* Every job, before anything else. */                                                         \
    X(READY)      /* <- layers, device, driver, memory bytes, l2 bytes, bandwidth */               \
    /* Candidate and baseline. */                                                                  \
    X(LOAD)       /* -> class, dtype, matmul {source, init} */                                     \
    X(CONSTRUCT)  /* -> seed, mode (enum model_mode) */                                            \
    X(ADOPT)      /* -> bytes {region, layout}, or 0 for the region that is mapped already         \
                        = matched, reason: parameters by name */                                   \
    X(SET)        /* -> index, bytes {region, layout} = address */                                 \
    X(OUTPUT)     /* -> bytes {region, layout} */                                                  \
    X(CALL)       /* -> set, generator seed                                                        \
                      = description, damaged allocations, size, offset, copied */                  \
    X(TIMING)     /* -> sequence; then the shared page speaks until PAGE_GO_LEAVE = 0 */           \
    X(MEMORY)     /* = live at the last call's start, live, peak: bytes */                          \
    X(MATMUL)     /* -> precision */                                                               \
    X(BUILD)      /* <- {spec}: asked while a LOAD, CONSTRUCT, CALL or TIMING is under way */      \
    X(BUILT)      /* -> path, or "" and the compiler's complaint */                                \
    /* Builder. */                                                                                 \
    X(COMPILE)    /* -> {spec} = path of the product below its scratch directory */                \
    /* Reference. */                                                                               \
    X(PROBLEM)    /* -> dtype, matmul {source} = {init} */                                         \
    X(MODEL)      /* -> seed, mode (enum model_mode) */                                            \
    X(STATE)      /* = bytes {region, layout}, or 0 where the region is the last one */            \
    X(DRAW)       /* -> set, family, seed, generator seed, judged = applies, reason,               \
                        description, controls, bytes {region, layout}: bytes 0 for the last one;   \
                        not judged: not shown before PUBLISH */                                    \
    X(EXPECT)     /* -> set, generator seed = see reference.py, reason: oracle and baseline on it */   \
    X(OUTPUT_NEW) /* = bytes {region, layout} */                                                   \
    X(POISON)     /* overwrites the output region */                                               \
    X(COMPARE)    /* -> set = what struct comparison of judge/judging.h holds */                 \
    X(PUBLISH)    /* -> set: shows what was drawn for it, caches evicted, a few elements changed */ \
    X(OUTPUT_HASH) /* = hash of the output as it is now */                                         \
    X(DEVICE_MEMORY) /* = free bytes on the device */                                              \
    X(NEEDED)     /* -> set, generator seed = input bytes that the output depends on, at least */  \
    X(SETTLE)     /* frees what only correctness needed */                                         \
    X(ORACLE)     /* = note, live random, matmul matters */
/* clang-format on */

enum message {
    MESSAGE_NONE,
#define X(name) MESSAGE_##name,
    MESSAGE_LIST(X)
#undef X
        MESSAGE_COUNT
};

/* What a MESSAGE_FAIL is about. */
#define FAIL_LIST(X)                                                                               \
    X(SYNTAX) /* the file is not valid Python */                                                   \
    X(ENCODING)                                                                                    \
    X(EMPTY)                                                                                       \
    X(IMPORT)   /* running the file raised */                                                      \
    X(NO_MODEL) /* no class Model or ModelNew */                                                   \
    X(NO_GET_INPUTS)                                                                               \
    X(RAISED) /* the constructor, get_inputs or forward raised */                                  \
    X(OUT_OF_MEMORY)                                                                               \
    X(BUILD)    /* the compiler failed */                                                          \
    X(OUTPUT)   /* the output is no plain tensor */                                                \
    X(FORM)     /* the output has no tensor, or one on another device */                           \
    X(NO_SPACE) /* the scratch directory's file system is full */                                  \
    X(UNFIT)    /* this machine cannot: no device, no sandbox */                                   \
    X(INTERNAL) /* a defect of kbv */

enum fail_kind {
    FAIL_NONE,
#define X(name) FAIL_##name,
    FAIL_LIST(X)
#undef X
        FAIL_COUNT
};

enum model_mode {
    MODEL_PLAIN,
    MODEL_PERTURBED,     /* MODEL only: perturb the parameters that are there (P2) */
    MODEL_REINITIALISED, /* construct under perturbed initialisers, see problem.py */
};

enum job_role { ROLE_REFERENCE, ROLE_CANDIDATE, ROLE_BUILDER };
/* Flags of a candidate's job. */
enum job_flags { JOB_GUARD = 1, JOB_COUNT_MEMORY = 2 };

#endif
