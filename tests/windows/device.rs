//! Device communicators on the host.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use typed_nccl::{Error, Gin, Host, Requirements, Result};

#[test]
fn a_device_communicator_of_the_host() -> Result<()> {
    Host::spmd(3, |place| {
        let mut comm = place.init()?;
        let api = comm.device_api()?;
        assert!(api.properties().device_api);
        let dev = comm.dev_comm(&api, &Requirements::new().lsa_barriers(4))?;
        assert_eq!((dev.rank(), dev.size(), dev.lsa_size()), (comm.rank(), 3, 3));
        assert_eq!((dev.size_in_bytes(), dev.layout()), (0, None));
        assert_eq!(dev.lsa_barrier(3)?.index(), 3);
        assert!(matches!(dev.lsa_barrier(4), Err(Error::NotRequired(_))));
        let stream = comm.device().stream()?;
        let rank = comm.rank();
        stream.launch((&dev,), move |(dev,), ()| assert_eq!(dev.rank(), rank))?;
        comm.close_dev_comm(dev)?;
        comm.finish()
    })
    .map(drop)
}

#[test]
fn it_ends_after_the_closures_that_take_it() -> Result<()> {
    Host::spmd(2, |place| {
        let mut comm = place.init()?;
        let api = comm.device_api()?;
        let dev = comm.dev_comm(&api, &Requirements::new())?;
        let (stream, over) = (comm.device().stream()?, Arc::new(AtomicBool::new(false)));
        let told = over.clone();
        stream.launch((&dev,), move |_, ()| {
            thread::sleep(Duration::from_millis(100));
            told.store(true, Ordering::Release);
        })?;
        comm.close_dev_comm(dev)?;
        assert!(over.load(Ordering::Acquire), "it runs still");
        comm.finish()
    })
    .map(drop)
}

#[test]
fn the_host_has_no_network_and_no_multicast() -> Result<()> {
    Host::spmd(2, |place| {
        let mut comm = place.init()?;
        let api = comm.device_api()?;
        let team = comm.lsa_team()?;
        for (needs, words) in [
            (Requirements::new().lsa_multimem(), "needs NVLink multicast"),
            (Requirements::new().multimem_of(team), "`Requirements::multimem_of`"),
            (Requirements::new().gin(Gin::every_rank()), "`Gin::every_rank` needs a network"),
            (Requirements::new().gin(Gin::same_rail()), "`Gin::same_rail` needs a network"),
            (Requirements::new().buffer(64, 64), "needs kernels of a GPU"),
            (Requirements::new().all_to_all(1, 1), "`Requirements::all_to_all` needs kernels"),
        ] {
            let Err(error) = comm.dev_comm(&api, &needs) else { panic!("{words}") };
            assert!(error.is_refusal() && error.to_string().contains(words), "{error}");
        }
        comm.finish()
    })
    .map(drop)
}

#[test]
fn one_that_a_communicator_went_on_without_is_stale() -> Result<()> {
    let all_have_one = Barrier::new(3);
    let outcome = Host::spmd(3, |place| {
        let mut comm = place.init()?;
        let api = comm.device_api()?;
        let dev = comm.dev_comm(&api, &Requirements::new())?;
        all_have_one.wait();
        if comm.rank().index() == 1 {
            comm.abort();
            return Ok(());
        }
        comm.recover()?;
        let stream = comm.device().stream()?;
        let stale = stream.launch((&dev,), |_, ()| {});
        assert!(matches!(&stale, Err(Error::Stale(_))), "{stale:?}");
        let old = comm.dev_comm(&api, &Requirements::new());
        assert!(matches!(&old, Err(Error::Stale(_))), "{old:?}");
        comm.close_dev_comm(dev)?;
        let api = comm.device_api()?;
        let dev = comm.dev_comm(&api, &Requirements::new())?;
        assert_eq!(dev.size(), 2);
        comm.close_dev_comm(dev)?;
        comm.finish()
    });
    outcome.map(drop)
}
