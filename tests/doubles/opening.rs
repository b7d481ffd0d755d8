//! Opening devices and libraries, and the errors if there are none.

use fake_cuda::Code;
use nccl_sys::ENVIRONMENT;
use typed_nccl::{AnyDevice, Cuda, Device, NcclVersion, device_tag, library};

use crate::common::alone;
use crate::scenario::{Driver, Machine, NEWEST, Nccl, cuda, nccl, on, release};

const NO_DRIVER: &str = "no CUDA driver can be used here: ";
const REMEDY: &str = "install NVIDIA's driver (`nvidia-smi` shows whether it works)";

#[test]
fn without_a_driver() {
    on(Machine { driver: Driver::Own, ..NEWEST }, || {
        match Cuda::count() {
            Ok(count) => println!("SKIPPED: this machine has a driver of its own, {count} GPUs"),
            Err(_) => {
                let outcome = Cuda::local();
                assert_error!(outcome, NoDriver, NO_DRIVER, "libcuda.so.1: ", REMEDY, "`Host`");
            }
        }
        Ok(())
    });
}

#[test]
fn a_driver_that_does_not_load() {
    on(Machine { driver: Driver::Broken, ..NEWEST }, || {
        for _ in 0..2 {
            let outcome = Cuda::<AnyDevice>::any(1);
            assert_error!(outcome, NoDriver, NO_DRIVER, "broken/libcuda.so.1: ", REMEDY, "`Host`");
        }
        assert_error!(Cuda::count(), NoDriver, NO_DRIVER);
        Ok(())
    });
}

#[test]
fn a_driver_that_does_not_start() {
    on(NEWEST, || {
        cuda().fail("cuInit", Code::SYSTEM_DRIVER_MISMATCH);
        let says =
            "it gives CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (system has unsupported display driver";
        assert_error!(Cuda::local(), NoDriver, NO_DRIVER, says, REMEDY, "`Host`");
        // Checked once: the result does not change.
        assert_error!(Cuda::local(), NoDriver, says);
        assert_eq!(cuda().called().iter().filter(|name| **name == "cuInit").count(), 1);
        Ok(())
    });
}

device_tag!(Third, OutOfRange);

#[test]
fn gpus_by_ordinal() {
    on(NEWEST, || {
        cuda().set_devices(3);
        assert_eq!(Cuda::count()?, 3);
        let seen = "this process sees 3 GPUs, numbered from 0; `CUDA_VISIBLE_DEVICES`";
        let asked = "cuda:3 was asked for";
        assert_error!(Cuda::<AnyDevice>::any(3), NoSuchDevice, asked, seen);
        assert_error!(Cuda::<OutOfRange>::open_as(7), NoSuchDevice, "cuda:7 was asked for", seen);
        assert_error!(Cuda::<AnyDevice>::open_each(&[0, 1, 2, 3]), NoSuchDevice, asked, seen);
        assert_error!(Cuda::spmd(4, |_| Ok::<_, typed_nccl::Error>(())), NoSuchDevice, asked, seen);
        let third = Cuda::<Third>::open_as(2)?;
        assert_eq!((Device::ordinal(&third), Cuda::ordinal(&third)), (2, 2));
        assert_eq!((Cuda::local()?.ordinal(), Cuda::<AnyDevice>::any(1)?.ordinal()), (0, 1));
        assert_eq!(alone()?.device().ordinal(), 0);
        // A GPU is opened once, and stays open.
        let opened = |ordinal| {
            let log = cuda().log();
            let retained = log.iter().filter(|call| call.function == "cuDevicePrimaryCtxRetain");
            retained.filter(|call| call.argument("dev") == ordinal).count()
        };
        Cuda::<Third>::open_as(2)?;
        assert_eq!([0, 1, 2, 3].map(opened), [1, 1, 1, 0]);
        Ok(())
    });
}

#[test]
fn a_device_that_does_not_open() {
    on(NEWEST, || {
        cuda().fail("cuDevicePrimaryCtxRetain", Code::OUT_OF_MEMORY);
        let outcome = Cuda::<AnyDevice>::any(1);
        assert_error!(outcome, CudaFailed, "opening on cuda:1", "OUT_OF_MEMORY (out of memory)");
        // The next attempt may succeed.
        Cuda::<AnyDevice>::any(1).map(drop)
    });
}

#[test]
fn without_nccl() {
    on(Machine { nccl: Nccl::Missing, ..NEWEST }, || {
        // Memory and streams load no NCCL.
        let device = Cuda::local()?;
        assert_eq!(device.from_slice(&[1_u8, 2])?.to_vec()?, [1, 2]);
        let place = "doubles/nothing/here";
        assert_error!(library::version(), NoNccl, place, ENVIRONMENT);
        assert_error!(alone(), NoNccl, place, ENVIRONMENT);
        assert_error!(device.nccl_zeros::<u8>(8), NoNccl, place, ENVIRONMENT);
        Ok(())
    });
}

#[test]
fn without_nccl_in_the_usual_places() {
    on(Machine { nccl: Nccl::Own, ..NEWEST }, || {
        match library::version() {
            Ok(version) => println!("SKIPPED: this machine has an NCCL of its own, {version}"),
            Err(_) => {
                let system = "libnccl.so.2 on the system's search path";
                assert_error!(library::version(), NoNccl, system, "already loaded", ENVIRONMENT);
            }
        }
        Ok(())
    });
}

#[test]
fn the_loaded_release_is_told() {
    on(release("2.29.7"), || {
        assert_eq!(library::version()?, NcclVersion::new(2, 29, 7));
        assert_eq!(nccl().called(), [nccl_sys::Function::ncclGetVersion]);
        Ok(())
    });
}
