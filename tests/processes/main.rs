//! Ranks as processes: those that `launch!` starts itself, and those that a launcher starts. Each
//! test is a program of this file, run again by name with doubles of CUDA's driver and of NCCL. The
//! doubles move data between processes; their promises are tested here too.

#[cfg(all(feature = "cuda", target_os = "linux"))]
mod adopted;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod agreement;
#[cfg(all(feature = "cuda", feature = "mpi", target_os = "linux"))]
mod by_mpi;
#[cfg(all(feature = "cuda", target_os = "linux"))]
#[path = "../raw/call.rs"]
mod call;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod causes;
mod deadlocks;
mod ends;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod grow;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod host;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod ids;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod jobs;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod kills;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod late;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod launchers;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod left;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod machine;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod machines;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod misuse;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod mixed;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod moves;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod own;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod quickstart;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod ranks;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod raw;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod recovery;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod refused;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod splits;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod stage;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod stopped;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod strangers;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod survive;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod suspend;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod twins;

#[cfg(all(feature = "cuda", target_os = "linux"))]
fn main() {
    machine::main(&[
        own::TESTS,
        causes::TESTS,
        launchers::TESTS,
        host::TESTS,
        stopped::TESTS,
        deadlocks::TESTS,
        refused::TESTS,
        jobs::TESTS,
        moves::TESTS,
        quickstart::TESTS,
        kills::TESTS,
        survive::TESTS,
        recovery::TESTS,
        suspend::TESTS,
        ends::TESTS,
        grow::TESTS,
        misuse::TESTS,
        machines::TESTS,
        #[cfg(feature = "mpi")]
        by_mpi::TESTS,
        strangers::TESTS,
        mixed::TESTS,
        splits::TESTS,
        agreement::TESTS,
        twins::TESTS,
        ids::TESTS,
        late::TESTS,
        adopted::TESTS,
    ]);
}

#[cfg(not(all(feature = "cuda", target_os = "linux")))]
fn main() {
    println!("SKIPPED: the doubles are for Linux, and for builds with the feature `cuda`");
}
