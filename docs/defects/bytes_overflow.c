// The product of the count and the size of an element is not checked: 2^62 + 8 floats are 32 bytes.
#include "ranks.h"

int main(void) {
    CUDA(cudaSetDevice(0));
    ncclUniqueId one;
    NCCL(ncclGetUniqueId(&one));
    ncclComm_t comm;
    NCCL(ncclCommInitRank(&comm, 1, one, 0));
    float *from = floats(8, 1), *to = floats(8, 0);
    size_t count = ((size_t)1 << 62) + 8;
    ncclResult_t result = ncclAllReduce(from, to, count, ncclFloat, ncclSum, comm, NULL);
    cudaError_t synced = cudaDeviceSynchronize();
    printf("all-reduce %d, sync %d\n", result, synced);
    tell(result == ncclSuccess && synced == cudaSuccess && first(to) == 1,
         "an all-reduce of 2^62 + 8 floats succeeds");
}
