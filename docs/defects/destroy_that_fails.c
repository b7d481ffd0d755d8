// ncclCommDestroy of a communicator that is not ready returns an error, and leaves the thread inside
// a group: later calls on the thread return success and do nothing.
#include "ranks.h"

int main(void) {
    CUDA(cudaSetDevice(0));
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    ncclUniqueId one, other;
    NCCL(ncclGetUniqueId(&one));
    NCCL(ncclGetUniqueId(&other));
    ncclComm_t good, waits;
    NCCL(ncclCommInitRank(&good, 1, one, 0));
    float *from = floats(8, 1), *to = floats(8, 0);

    // Rank 0 of two, the other of which never comes.
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclCommInitRankConfig(&waits, 2, other, 0, &config);
    ncclResult_t destroyed = ncclCommDestroy(waits);

    ncclResult_t reduced = ncclAllReduce(from, to, 8, ncclFloat, ncclSum, good, stream);
    CUDA(cudaStreamSynchronize(stream));
    printf("destroy %d, all-reduce %d, result %g of 1\n", destroyed, reduced, first(to));
    tell(destroyed != ncclSuccess && reduced == ncclSuccess && first(to) == 0,
         "after a destroy that failed, an all-reduce succeeds without running");
}
