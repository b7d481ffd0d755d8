// ncclCommInitAll with no devices passes the checks of its arguments and then reads comms[0].
#include "ranks.h"
#include <sys/wait.h>

int main(void) {
    ncclComm_t comms[1] = {NULL};
    if (fork() == 0) {
        ncclResult_t result = ncclCommInitAll(comms, 0, NULL);
        printf("it returned %d\n", result);
        fflush(stdout);
        _exit(0);
    }
    int status;
    wait(&status);
    tell(WIFSIGNALED(status), "ncclCommInitAll(comms, 0, NULL) ends the program by a signal");
}
