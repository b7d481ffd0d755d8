// The list of ranks that ncclCommShrink leaves out is not checked: a rank that is in it twice counts
// twice, so the others wait for a communicator of one rank less.
#include "ranks.h"

static void *watch(void *nothing) {
    sleep(15);
    tell(1, "ranks that name one rank twice in ncclCommShrink hang, or get a wrong size");
    return nothing;
}

static void each(Rank *self) {
    if (self->rank == 2) pause();
    int excluded[2] = {2, 2};
    ncclComm_t fewer = NULL;
    ncclResult_t result = ncclCommShrink(self->comm, excluded, 2, &fewer, NULL, NCCL_SHRINK_DEFAULT);
    int size = -1;
    if (result == ncclSuccess) ncclCommCount(fewer, &size);
    printf("rank %d: shrink %d, %d ranks of 2\n", self->rank, result, size);
    fflush(stdout);
    tell(result == ncclSuccess && size != 2, "a rank that is named twice in ncclCommShrink counts twice");
}

int main(void) {
    pthread_t watcher;
    pthread_create(&watcher, NULL, watch, NULL);
    ranks(3, each);
}
