//! AMD's RCCL in NCCL's place: what it has works, what it lacks is refused by name.

use nccl_sys::Function::ncclAllReduce;
use nccl_sys::ncclResult_t;
use typed_nccl::{CallConfig, Error, NcclVersion, Result, Sum, library, params, tag};

use crate::common::{alone, says};
use crate::scenario::{Machine, NEWEST, Nccl, nccl, on, release, version};

fn rccl(text: &str) -> Machine {
    Machine { nccl: Nccl::Rccl(version(text)), ..NEWEST }
}

tag!(Child);

/// What every RCCL has.
fn ordinary() -> Result<()> {
    let mut comm = alone()?;
    let x = comm.device().from_slice(&[1_f32, 2.0])?;
    let mut all = comm.device().zeros::<f32>(2)?;
    comm.all_reduce(&x, &mut all, Sum)?;
    comm.all_to_all(&x, &mut all)?;
    let child = comm.split::<Child>(0, 0)?;
    assert_eq!(child.size(), 1);
    child.finish()?;
    comm.finish()
}

#[test]
fn it_is_told_from_nccl() {
    on(rccl("2.30.7"), || {
        assert!(library::is_rccl()?);
        assert_eq!(library::version()?, NcclVersion::new(2, 30, 7));
        let path = library::path()?.expect("the system says it");
        assert!(path.ends_with("librccl.so.1"), "{}", path.display());
        Ok(())
    });
    on(release("2.30.7"), || {
        assert!(!library::is_rccl()?);
        Ok(())
    });
}

#[test]
fn an_error_names_it() {
    for (machine, name) in [(rccl("2.30.7"), "RCCL"), (release("2.30.7"), "NCCL")] {
        on(machine, || {
            let comm = alone()?;
            let mut x = comm.device().zeros::<f32>(2)?;
            nccl().fail(ncclAllReduce, ncclResult_t::ncclSystemError);
            let error = comm.all_reduce_in_place(&mut x, Sum).expect_err("NCCL fails");
            let Error::NcclFailed(failed) = &error else { panic!("{error}") };
            assert_eq!(failed.library, name);
            let text = error.to_string();
            assert!(text.contains(&format!("ncclAllReduce of {name} 2.30.7 gave ")), "{text}");
            assert!(text.ends_with(&format!("makes {name} say more")), "{text}");
            Ok(())
        });
    }
}

#[test]
fn what_it_has_works() {
    on(rccl("2.30.7"), || {
        ordinary()?;
        let comm = alone()?.suspend()?.resume()?;
        comm.finish()
    });
    on(rccl("2.21.5"), || {
        ordinary()?;
        Ok(())
    });
}

#[test]
fn what_it_lacks_is_refused_by_name() {
    on(rccl("2.30.7"), || {
        let found = "RCCL 2.30.7 is loaded, which does not export it";
        let comm = alone()?;
        let properties = "properties (ncclCommQueryProperties) needs NCCL 2.29.2";
        assert_error!(comm.properties(), Unsupported, properties, found);
        assert_error!(comm.device_api(), Unsupported, found);
        assert_error!(params::keys(), Unsupported, "ncclParamGetAllParameterKeys", found);
        let mut x = comm.device().from_slice(&[1_f32])?;
        let call = CallConfig::builder().profiler_tag(9).build();
        let outcome = comm.with(&call).all_reduce_in_place(&mut x, Sum);
        let newer = "needs NCCL 2.31.2; RCCL 2.30.7 is loaded: load a newer one";
        assert_error!(outcome, Unsupported, "`CallConfig`", newer);
        // The refusals have sent nothing.
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.finish()
    });
    on(rccl("2.21.5"), || {
        let comm = alone()?;
        let failed = comm.try_suspend().expect_err("it lacks the function");
        assert!(matches!(failed.error, Error::Unsupported(_)), "{}", failed.error);
        let found = "RCCL 2.21.5 is loaded, which does not export it";
        says(&failed.error, &["ncclCommSuspend", found]);
        failed.value.finish()
    });
}
