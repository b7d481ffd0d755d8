// Two ranks name different roots of a broadcast. Both finish, with data that nobody asked for.
#include "ranks.h"

static float found[2];

static void each(Rank *self) {
    float *buffer = floats(1024, 1 + self->rank);
    NCCL(ncclBroadcast(buffer, buffer, 1024, ncclFloat, self->rank, self->comm, self->stream));
    CUDA(cudaStreamSynchronize(self->stream));
    found[self->rank] = first(buffer);
}

int main(void) {
    ranks(2, each);
    printf("rank 0 has %g, rank 1 has %g\n", found[0], found[1]);
    tell(found[0] != found[1], "a broadcast whose ranks name different roots succeeds, and they differ");
}
