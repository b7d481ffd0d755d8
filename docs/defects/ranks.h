// Ranks as threads on one GPU. Needs NCCL_MULTI_RANK_GPU_ENABLE=1 (NCCL 2.30.3 and later).
#include <cuda_runtime.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CUDA(call) check((call) == cudaSuccess, #call)
#define NCCL(call) check((call) == ncclSuccess, #call)

static void check(int good, const char *call) {
    if (!good) {
        printf("failed: %s\n", call);
        exit(2);
    }
}

// The answer of a program that shows the defect, and of one that does not.
static void tell(int is_there, const char *what) {
    printf("%s: %s\n", is_there ? "SEEN" : "not seen", what);
    fflush(stdout);
    _exit(is_there ? 0 : 1);
}

typedef struct {
    int rank, size;
    ncclComm_t comm;
    cudaStream_t stream;
} Rank;

static ncclUniqueId id;
static void (*body)(Rank *);

static void *run(void *argument) {
    Rank *rank = argument;
    CUDA(cudaSetDevice(0));
    CUDA(cudaStreamCreate(&rank->stream));
    NCCL(ncclCommInitRank(&rank->comm, rank->size, id, rank->rank));
    body(rank);
    return NULL;
}

static void ranks(int size, void (*each)(Rank *)) {
    pthread_t threads[8];
    static Rank all[8];
    body = each;
    NCCL(ncclGetUniqueId(&id));
    for (int rank = 0; rank < size; rank++) {
        all[rank] = (Rank){.rank = rank, .size = size};
        pthread_create(&threads[rank], NULL, run, &all[rank]);
    }
    for (int rank = 0; rank < size; rank++) pthread_join(threads[rank], NULL);
}

// A buffer of floats, all `value`.
static float *floats(size_t count, float value) {
    float *memory, *host = malloc(count * sizeof(float));
    for (size_t i = 0; i < count; i++) host[i] = value;
    CUDA(cudaMalloc((void **)&memory, count * sizeof(float)));
    CUDA(cudaMemcpy(memory, host, count * sizeof(float), cudaMemcpyHostToDevice));
    free(host);
    return memory;
}

static float first(const float *memory) {
    float value;
    CUDA(cudaMemcpy(&value, memory, sizeof(value), cudaMemcpyDeviceToHost));
    return value;
}
