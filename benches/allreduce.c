/* MPI_Allreduce of floats, one after the other, for host_engine.rs: `allreduce BYTES ROUNDS ..` prints the
   microseconds of each size. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double micros(const float *x, float *y, int count, int rounds) {
    for (int i = 0; i < 10; i++)
        MPI_Allreduce(x, y, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), most;
    for (int i = 0; i < rounds; i++)
        MPI_Allreduce(x, y, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double own = (MPI_Wtime() - start) * 1e6 / rounds;
    MPI_Allreduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 1; i + 1 < argc; i += 2) {
        int count = atoi(argv[i]) / 4;
        float *x = malloc(count * sizeof *x), *y = malloc(count * sizeof *y);
        for (int j = 0; j < count; j++)
            x[j] = y[j] = 1;
        double time = micros(x, y, count, atoi(argv[i + 1]));
        if (rank == 0)
            printf("%f\n", time);
        free(x);
        free(y);
    }
    return MPI_Finalize();
}
