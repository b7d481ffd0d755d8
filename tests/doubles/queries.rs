//! Queries: communicators, parameters, the library, errors, the time.

use std::env;
use std::path::Path;
use std::time::Duration;

use fake_cuda::Code;
use nccl_sys::Function::{
    ncclAllReduce, ncclCommQueryProperties, ncclParamDumpAll, ncclSetEncryption,
};
use nccl_sys::{BOUND, ENVIRONMENT};
use nccl_sys::{ncclEncryptionConfig_t, ncclResult_t};
use typed_nccl::error::NcclResult;
use typed_nccl::{
    AnyDevice, Cuda, Error, GinConnections, GinType, NcclVersion, Sum, library, params,
};

use crate::common::{alone, calls, count};
use crate::scenario::{NEWEST, cuda, nccl, on, real, release};

#[test]
fn properties_are_those_of_nccl() {
    on(NEWEST, || {
        let comm = alone()?;
        let found = comm.properties()?;
        assert_eq!((found.rank, found.size, found.device), (comm.rank(), 1, 0));
        assert_eq!((found.nvml_device, found.device_api, found.multimem), (Some(0), false, true));
        assert_eq!((found.gin, found.railed_gin), (Some(GinType::Proxy), Some(GinType::None)));
        assert_eq!((found.lsa_teams, found.one_sided), (Some(1), Some(false)));
        assert_eq!((found.hash, found.gin_min_stride), (Some(0xfeed), Some(2)));
        assert_eq!(found.gin_connections, Some(GinConnections::Rail));
        assert_eq!(found.gin_types, Some(vec![GinType::Proxy, GinType::Unknown(40)]));
        assert_eq!(found.device_comm_bytes, Some(4096));
        let cft = (found.cft, found.cft_multicast, found.cft_counted);
        assert_eq!(cft, (Some(false), Some(true), Some(false)));
        Cuda::spmd(3, |place| {
            let comm = place.init()?;
            let (found, own) = (comm.properties()?, comm.rank().index() as u32);
            assert_eq!((found.rank, found.size), (comm.rank(), 3));
            assert_eq!((found.device, found.lsa_teams), (own, Some(3)));
            comm.finish()
        })?;
        assert!(found.to_string().contains("ginType: Proxy"), "{found}");
        nccl().fail(ncclCommQueryProperties, ncclResult_t::ncclInternalError);
        assert_error!(comm.properties(), NcclFailed, "ncclCommQueryProperties");
        Ok(())
    });
}

/// NCCL's numbers, one by one.
#[test]
fn ways_over_the_network_are_those_of_nccl() {
    on(NEWEST, || {
        let comm = alone()?;
        let found = |way, railed, connections| {
            nccl().set_gin(way, railed, connections);
            let found = comm.properties()?;
            let kinds = found.gin_types.unwrap_or_default();
            assert_eq!(Some(kinds[0]), found.gin);
            Ok::<_, Error>((found.gin, found.railed_gin, found.gin_connections))
        };
        for (way, wanted) in [
            (0, GinType::None),
            (2, GinType::Proxy),
            (3, GinType::Gdaki),
            (4, GinType::Gpi),
            (5, GinType::EfaGda),
            (9, GinType::Unknown(9)),
        ] {
            assert_eq!(found(way, 3, 0)?.0, Some(wanted));
            assert_eq!(found(3, way, 0)?.1, Some(wanted));
            assert_eq!((wanted.code(), GinType::from_code(way)), (way, wanted));
        }
        for (reach, wanted) in [
            (0, GinConnections::None),
            (1, GinConnections::Full),
            (2, GinConnections::Rail),
            (3, GinConnections::CustomStride),
            (9, GinConnections::Unknown(9)),
        ] {
            assert_eq!(found(2, 2, reach)?.2, Some(wanted));
            assert_eq!((wanted.code(), GinConnections::from_code(reach)), (reach, wanted));
        }
        comm.finish()
    });
}

#[test]
fn an_older_release_does_not_say_what_it_does_not_know() {
    on(release("2.29.7"), || {
        let comm = alone()?;
        let found = comm.properties()?;
        assert_eq!((found.gin, found.lsa_teams), (Some(GinType::Proxy), Some(1)));
        assert_eq!((found.hash, found.gin_types, found.cft), (None, None, None));
        comm.finish()
    });
    on(release("2.29.2"), || {
        let comm = alone()?;
        let found = comm.properties()?;
        assert!(found.multimem);
        assert_eq!((found.gin, found.one_sided), (None, None));
        comm.finish()
    });
    on(release("2.28.9"), || {
        let comm = alone()?;
        assert_error!(comm.properties(), Unsupported, "properties", "NCCL 2.29.2", "2.28.9");
        comm.finish()
    });
}

#[test]
fn parameters_have_types() {
    on(NEWEST, || {
        assert_eq!(params::keys()?, ["NCCL_BUFFSIZE", "NCCL_ALGO"]);
        assert_eq!(params::get("NCCL_BUFFSIZE")?.as_deref(), Some("4194304"));
        assert_eq!(params::get("NCCL_NONE")?, None);
        assert_eq!(params::get("with\0zero")?, None);
        assert_eq!(params::read::<i64>("NCCL_BUFFSIZE")?, Some(4 << 20));
        assert_eq!(params::read::<String>("NCCL_ALGO")?.as_deref(), Some("Ring"));
        assert_eq!(params::read::<u8>("NCCL_NONE")?, None);
        let parts = ["NCCL_BUFFSIZE as `i32`", "params::get"];
        assert_error!(params::read::<i32>("NCCL_BUFFSIZE"), Unsupported, parts[0], parts[1]);
        params::dump()?;
        assert_eq!(count(ncclParamDumpAll), 1);
        Ok(())
    });
    on(release("2.30.3"), || {
        assert_eq!((params::keys()?, params::get("NCCL_ALGO")?), (Vec::new(), None));
        Ok(())
    });
    on(release("2.29.7"), || {
        assert_error!(params::keys(), Unsupported, "NCCL's parameters", "NCCL 2.30.3");
        assert_error!(params::get("NCCL_ALGO"), Unsupported, "NCCL 2.30.3");
        assert_error!(params::dump(), Unsupported, "ncclParamDumpAll");
        Ok(())
    });
}

#[test]
fn a_key_is_asked_for_before_the_first_communicator() {
    let short = "31 bytes are one byte too short";
    let key = || library::PreSharedKey::new("32 bytes are as many as it needs");
    on(NEWEST, || {
        assert_error!(library::PreSharedKey::new(short), BadKey, "32 bytes", "has 31");
        assert_error!(library::PreSharedKey::new(vec![0; 40]), BadKey, "byte 0");
        let text = format!("{:?}", key()?);
        assert!(!text.contains("as many"), "{text}");
        library::encrypt(&key()?)?;
        let wish = calls(ncclSetEncryption).remove(0);
        let bytes = wish.bytes("config");
        let mode = std::mem::offset_of!(ncclEncryptionConfig_t, mode);
        assert_eq!(bytes[mode], 1);
        let comm = alone()?;
        assert_error!(library::encrypt(&key()?), Unsupported, "before the first communicator");
        assert_eq!(count(ncclSetEncryption), 1);
        comm.finish()
    });
    on(release("2.31.2"), || {
        assert_error!(library::encrypt(&key()?), Unsupported, "ncclSetEncryption", "NCCL 2.32.3");
        Ok(())
    });
}

#[test]
fn what_failed_is_matched_on() {
    on(NEWEST, || {
        for (code, result, name) in [
            (5, NcclResult::InvalidUsage, "ncclInvalidUsage"),
            (8, NcclResult::Timeout, "ncclTimeout"),
            (77, NcclResult::Unknown(77), "result 77"),
        ] {
            let comm = alone()?;
            let mut x = comm.device().from_slice(&[1_f32])?;
            nccl().fail(ncclAllReduce, ncclResult_t(code));
            let Err(Error::NcclFailed(failed)) = comm.all_reduce_in_place(&mut x, Sum) else {
                panic!("NCCL fails");
            };
            assert_eq!((failed.result, failed.version), (result, NcclVersion::new(2, 32, 3)));
            assert!(failed.to_string().contains(&format!("NCCL 2.32.3 gave {name}")), "{failed}");
        }
        cuda().fail("cuDevicePrimaryCtxRetain", Code::OUT_OF_MEMORY);
        let Err(Error::CudaFailed(failed)) = Cuda::<AnyDevice>::any(1) else {
            panic!("CUDA fails");
        };
        assert_eq!((failed.code, &*failed.name), (2, "CUDA_ERROR_OUT_OF_MEMORY"));
        Ok(())
    });
}

#[test]
fn the_library_says_what_it_is() {
    on(NEWEST, || {
        // The newest release whose declarations are bound.
        assert_eq!(library::version()?, NcclVersion::from(BOUND));
        Ok(())
    });
    on(release("2.30.7"), || {
        assert_eq!(library::version()?, NcclVersion::new(2, 30, 7));
        let path = env::var_os(ENVIRONMENT).expect("the scenario names it");
        assert_eq!(library::path()?.as_deref(), Some(Path::new(&path)));
        assert_eq!(library::built_for()?, None);
        assert_eq!(library::last_error()?, None);
        nccl().set_last_error("no route to host");
        assert_eq!(library::last_error()?.as_deref(), Some("no route to host"));
        assert_eq!(library::describe(NcclResult::InvalidUsage)?, "invalid usage");
        Ok(())
    });
}

#[test]
fn timed_marks_measure_the_device() {
    on(NEWEST, || {
        let device = Cuda::any(0)?;
        let stream = device.stream()?;
        let start = stream.timed_mark()?;
        // The device gets no further.
        cuda().hold(crate::common::handle(&stream)?);
        let end = stream.timed_mark()?;
        assert!(start.is_reached()? && !end.is_reached()?);
        assert_eq!(end.since(&start)?, None);
        std::thread::sleep(Duration::from_millis(5));
        cuda().release(crate::common::handle(&stream)?);
        stream.sync()?;
        let took = end.since(&start)?.expect("both are reached");
        assert!(took >= Duration::from_millis(5), "{took:?}");
        assert_eq!(start.since(&end)?, Some(Duration::ZERO));
        let other = Cuda::any(1)?.stream()?.timed_mark()?;
        assert_error!(other.since(&start), OtherDevice, "first mark", "cuda:0");
        Ok(())
    });
}

/// Released libraries, without a GPU. If they were not fetched, the run says so outside of the
/// test's capture.
#[test]
fn released_libraries_answer() {
    if let Some(machine) = real("2.27.7") {
        on(machine, || {
            assert_eq!(library::version()?, NcclVersion::new(2, 27, 7));
            assert_eq!(library::built_for()?.map(|cuda| cuda.0), Some(12));
            assert_error!(params::keys(), Unsupported, "NCCL 2.30.3");
            Ok(())
        });
    }
    if let Some(machine) = real("2.32.3") {
        on(machine, || {
            assert_eq!(library::version()?, NcclVersion::new(2, 32, 3));
            assert_eq!(library::built_for()?.map(|cuda| cuda.0), Some(12));
            let path = library::path()?.expect("the system tells");
            assert!(path.ends_with("2.32.3/nvidia/nccl/lib/libnccl.so.2"), "{}", path.display());
            assert_eq!(library::describe(NcclResult::Timeout)?, "timeout");
            let unknown = library::describe(NcclResult::Unknown(77))?;
            assert_eq!(unknown, "unknown result code");
            let keys = params::keys()?;
            assert!(!keys.is_empty());
            for key in &keys {
                assert!(params::get(key)?.is_some(), "{key}");
            }
            assert_eq!(params::get("NCCL_NO_SUCH_PARAMETER")?, None);
            assert_eq!(params::read::<String>("NCCL_DEBUG_FILE")?.as_deref(), Some(""));
            let is_number = |key: &String| params::read::<u64>(key).is_ok();
            assert!(keys.iter().any(is_number), "{keys:?}");
            library::encrypt(&library::PreSharedKey::new("32 bytes are as many as it needs")?)
        });
    }
}
