//! Device communicators: created, used and ended with the machine's capabilities.

use std::time::{Duration, Instant};

use typed_nccl::{
    Communicator, Cuda, DeviceApi, Error, Gin, GinType, Requirements, Result, Scoped, TeamOf,
};

use crate::common::ranks;

type Comm<'id> = Communicator<Cuda<Scoped<'id>>>;
type Api<'id> = DeviceApi<Cuda<Scoped<'id>>>;

/// Runs a body on every GPU whose communicator supports device communicators; else reports why not.
fn with_api(body: impl for<'id> Fn(&mut Comm<'id>, &Api<'id>) -> Result<()> + Sync) -> Result<()> {
    let skipped = Cuda::spmd(ranks()?, |place| -> Result<Option<String>> {
        let mut comm = place.init()?;
        let skipped = match comm.device_api() {
            Ok(api) => {
                body(&mut comm, &api)?;
                None
            }
            Err(Error::Unsupported(why)) => Some(why.to_string()),
            Err(error) => return Err(error),
        };
        comm.finish()?;
        Ok(skipped)
    })?;
    if let Some(why) = skipped.into_iter().flatten().next() {
        println!("SKIPPED: {why}");
    }
    Ok(())
}

/// Barriers, and multicast if it is supported.
fn near(api: &Api<'_>) -> Requirements {
    let needs = Requirements::new().lsa_barriers(16);
    if api.properties().multimem { needs.lsa_multimem() } else { needs }
}

pub(crate) fn made_and_ended_again_and_again() -> Result<()> {
    with_api(|comm, api| {
        for _ in 0..100 {
            let window = comm.window::<f32>(1 << 20)?;
            assert!(comm.window_handle(&window)?.is_some());
            let dev = comm.dev_comm(api, &near(api))?;
            assert_eq!((dev.rank(), dev.size()), (comm.rank(), comm.size()));
            assert_eq!(dev.lsa_size(), comm.lsa_team()?.size);
            assert!(dev.size_in_bytes() >= 200 && dev.layout().is_some());
            comm.close_dev_comm(dev)?;
            comm.close(window)?;
        }
        Ok(())
    })
}

pub(crate) fn all_that_the_machine_has() -> Result<()> {
    with_api(|comm, api| {
        let team = comm.lsa_team()?;
        let mut needs = near(api)
            .lsa_barriers_of(team, 4)
            .all_to_all(4, 64)
            .all_to_all_of(2, 32, 8)
            .buffer(1 << 16, 256)
            .buffer(4096, 128);
        if api.properties().multimem {
            needs = needs.multimem_of(team);
        }
        let window = comm.window::<f32>(1 << 20)?;
        let (first, second) = (comm.dev_comm(api, &needs)?, comm.dev_comm(api, &needs)?);
        for dev in [&first, &second] {
            assert_eq!(dev.lsa_barriers_of(team)?.count, 4);
            assert!(dev.all_to_all_of(0)?.slots > 0);
            assert_ne!(dev.buffer(0)?, dev.buffer(1)?);
            if api.properties().multimem {
                // A window with an address has one in each mapping.
                let mapped = comm.multimem_ptr(&window)?.is_some();
                for mapping in [dev.multimem()?, dev.multimem_of(team)?] {
                    assert_eq!(comm.multimem_ptr_in(&window, mapping.base)?.is_some(), mapped);
                }
            }
        }
        // In the order of creation, and in reverse.
        comm.close_dev_comm(first)?;
        let third = comm.dev_comm(api, &needs)?;
        comm.close_dev_comm(third)?;
        comm.close_dev_comm(second)?;
        comm.close(window).map(drop)
    })
}

pub(crate) fn over_the_network() -> Result<()> {
    with_api(|comm, api| {
        let has = api.properties();
        let none = |way: Option<GinType>| matches!(way, None | Some(GinType::None));
        let needs = match (none(has.gin), none(has.railed_gin)) {
            (false, _) => {
                let rail = comm.team(TeamOf::Rail)?;
                let gin = Gin::every_rank().contexts(2).signals(8).counters(4).barriers(2);
                println!("rail: {rail:?}");
                Requirements::new().gin(gin.rail_barriers(2))
            }
            (true, false) => Requirements::new().gin(Gin::same_rail().signals(8).rail_barriers(2)),
            (true, true) => {
                println!(
                    "SKIPPED: kernels reach no network here: {:?}, {:?}",
                    has.gin, has.railed_gin
                );
                let outcome = comm.dev_comm(api, &Requirements::new().gin(Gin::every_rank()));
                assert!(outcome.is_err_and(|error| error.is_refusal()));
                return Ok(());
            }
        };
        let dev = comm.dev_comm(api, &needs)?;
        assert!(dev.gin_contexts().is_none_or(|contexts| contexts > 0));
        println!("{} contexts", dev.gin_contexts().unwrap_or(0));
        comm.close_dev_comm(dev)
    })
}

pub(crate) fn left_to_the_communicators_end() -> Result<()> {
    with_api(|comm, api| {
        drop(comm.dev_comm(api, &near(api))?);
        let kept = comm.dev_comm(api, &near(api))?;
        drop(comm.window::<f32>(1 << 20)?);
        drop(kept);
        Ok(())
    })
}

pub(crate) fn used_by_what_is_launched() -> Result<()> {
    with_api(|comm, api| {
        let dev = comm.dev_comm(api, &near(api))?;
        let stream = comm.device().stream()?;
        let len = dev.size_in_bytes();
        stream.launch((&dev,), move |(dev,), _| assert_eq!(dev.bytes().len(), len))?;
        // Its end waits for the stream.
        comm.close_dev_comm(dev)
    })
}

pub(crate) fn how_long_it_takes() -> Result<()> {
    with_api(|comm, api| {
        let mut took: [Vec<Duration>; 2] = Default::default();
        for _ in 0..20 {
            let started = Instant::now();
            let dev = comm.dev_comm(api, &near(api))?;
            took[0].push(started.elapsed());
            let started = Instant::now();
            comm.close_dev_comm(dev)?;
            took[1].push(started.elapsed());
        }
        if comm.rank().index() == 0 {
            let [made, ended] = took.map(|mut times| {
                let first = times[0];
                times.sort_unstable();
                format!("{first:?} the first time, then {:?}", times[times.len() / 2])
            });
            println!("a device communicator is made in {made}; ended in {ended}");
        }
        Ok(())
    })
}
