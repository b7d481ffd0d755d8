// A symmetric window at offset 0 of its allocation on one rank, and at 4096 on the other, is
// registered without an error. A put into the other rank's window lands somewhere else.
#include "ranks.h"

static float found;

static void each(Rank *self) {
    char *memory;
    size_t whole = 4 << 20, len = 1 << 20, offset = self->rank == 1 ? 4096 : 0;
    NCCL(ncclMemAlloc((void **)&memory, whole));
    CUDA(cudaMemset(memory, 0, whole));
    float *source = (float *)(memory + offset);
    float own = 1 + self->rank;
    CUDA(cudaMemcpy(source, &own, sizeof(own), cudaMemcpyHostToDevice));
    ncclWindow_t window;
    NCCL(ncclCommWindowRegister(self->comm, memory + offset, len, &window, NCCL_WIN_COLL_SYMMETRIC));
    if (window == NULL) tell(0, "this machine has no windows");
    if (self->rank == 0) {
        // One float to byte 1024 of rank 1's window.
        NCCL(ncclPutSignal(source, 1, ncclFloat, 1, window, 1024, 0, 0, 0, self->comm, self->stream));
    } else {
        ncclWaitSignalDesc_t signal = {.opCnt = 1, .peer = 0, .sigIdx = 0, .ctx = 0};
        NCCL(ncclWaitSignal(1, &signal, self->comm, self->stream));
    }
    CUDA(cudaStreamSynchronize(self->stream));
    if (self->rank == 1) {
        found = first((float *)(memory + offset + 1024));
        printf("at 1024 of the window: %g; 4096 bytes before: %g\n", found,
               first((float *)(memory + 1024)));
    }
}

int main(void) {
    ranks(2, each);
    tell(found != 1, "a put into a window at another offset than the peer's lands elsewhere");
}
