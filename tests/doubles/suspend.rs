//! Suspending and resuming: the NCCL calls, and where it is impossible.

use nccl_sys::Function::{ncclCommMemStats, ncclCommResume, ncclCommSuspend};
use nccl_sys::ncclResult_t;
use typed_nccl::{Clique, CommConfig, Communicator, Cuda, Error, Seat, Sum};

use crate::common::{alone, calls, clear, count, says};
use crate::scenario::{NEWEST, nccl, on, release};

#[test]
fn suspend_and_resume_are_those_of_nccl() {
    on(NEWEST, || {
        let comm = alone()?;
        let before = comm.memory_stats()?;
        assert_eq!((before.held, before.total), (64 << 20, 64 << 20));
        assert_eq!((before.suspendable, before.persistent), (48 << 20, 16 << 20));
        let comm = comm.suspend()?;
        assert_eq!((count(ncclCommSuspend), count(ncclCommResume)), (1, 0));
        let flags = calls(ncclCommSuspend).remove(0);
        assert_eq!(flags.int("flags"), 1);
        let now = comm.memory_stats()?;
        assert_eq!((now.held, now.total), (16 << 20, 64 << 20));
        let comm = comm.resume()?;
        assert_eq!((count(ncclCommSuspend), count(ncclCommResume)), (1, 1));
        let mut x = comm.device().from_slice(&[1_f32; 4])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.finish()
    });
}

#[test]
fn a_clique_calls_on_every_rank() {
    on(NEWEST, || {
        let clique = Clique::init(Cuda::open_each(&[3, 0, 2])?)?;
        clear();
        let clique = clique.suspend()?;
        assert_eq!(count(ncclCommSuspend), 3);
        assert_eq!(clique.memory_stats()?.into_vec().len(), 3);
        let clique = clique.resume()?;
        assert_eq!(count(ncclCommResume), 3);
        clique.finish()
    });
}

#[test]
fn an_older_release_cannot() {
    on(release("2.28.9"), || {
        let comm = alone()?;
        let parts = ["ncclCommSuspend", "NCCL 2.29.7", "2.28.9 is loaded"];
        assert_error!(comm.memory_stats(), Unsupported, "ncclCommMemStats", "NCCL 2.29.7");
        let failed = comm.try_suspend().expect_err("it is too old");
        assert!(matches!(failed.error, Error::Unsupported(_)), "{}", failed.error);
        says(&failed.error, &parts);
        // It is unchanged.
        let comm = failed.value;
        let mut x = comm.device().from_slice(&[1_f32; 4])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.finish()
    });
}

#[test]
fn one_whose_children_share_cannot() {
    on(NEWEST, || {
        let config = CommConfig::builder().split_share(true).build();
        let comm = Communicator::builder().seat(Seat::local(1).remove(0)).device(Cuda::any(0)?);
        let comm = comm.config(config).build().connect()?;
        let failed = comm.try_suspend().expect_err("its children would lose their memory");
        says(&failed.error, &["split_share", "configure it without"]);
        assert_eq!(count(ncclCommSuspend), 0);
        failed.value.finish()
    });
}

#[test]
fn what_nccl_refuses_poisons() {
    on(NEWEST, || {
        let comm = alone()?;
        nccl().fail(ncclCommSuspend, ncclResult_t::ncclInvalidUsage);
        let failed = comm.try_suspend().expect_err("NCCL refuses");
        assert!(matches!(failed.error, Error::NcclFailed(_)), "{}", failed.error);
        says(&failed.error, &["ncclCommSuspend", "ncclInvalidUsage"]);
        assert!(failed.value.health().is_err());
        failed.value.abort();

        let comm = alone()?.suspend()?;
        nccl().fail(ncclCommResume, ncclResult_t::ncclUnhandledCudaError);
        let failed = comm.try_resume().expect_err("somebody has the memory");
        says(&failed.error, &["ncclCommResume", "ncclUnhandledCudaError"]);
        // The survivors continue with a new communicator.
        let comm = failed.value.shrink(&[])?;
        assert_eq!((comm.size(), comm.memory_stats()?.held), (1, 64 << 20));
        assert_eq!(count(ncclCommMemStats), 4);
        comm.finish()
    });
}
