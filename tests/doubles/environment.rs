//! NCCL's own variables: honoured, or refused by name before NCCL is called.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;

use nccl_sys::Api;
use nccl_sys::Function::{
    ncclCommAbort, ncclCommDestroy, ncclCommInitRankConfig, ncclCommSuspend,
    ncclCommWindowRegister, ncclPutSignal,
};
use nccl_sys::{ncclResult_t, ncclUniqueId};
use typed_nccl::{
    AnyDevice, CaptureOrder, Clique, CommConfig, Communicator, Cuda, GraphUse, LaunchOrder, Result,
    Seat, Sum, Transfers, tag,
};

use crate::common::{alone, count};
use crate::scenario::{Machine, NEWEST, Nccl, nccl, on, real, release, released};

tag!(Half);

type Variables = &'static [(&'static str, &'static str)];

/// A machine with these variables.
fn with(variables: Variables) -> Machine {
    Machine { variables, ..NEWEST }
}

fn connect(config: CommConfig) -> Result<Communicator<Cuda<AnyDevice>>> {
    let seat = Seat::local(1).remove(0);
    let builder = Communicator::builder().seat(seat).device(Cuda::<AnyDevice>::any(0)?);
    builder.config(config).build().connect()
}

/// A configuration that a variable breaks, and the error's words.
fn broken() -> [(Variables, CommConfig, &'static str); 13] {
    let of = CommConfig::builder;
    let plain = CommConfig::default;
    [
        (&[("NCCL_COMM_BLOCKING", "0")], plain(), "calls of NCCL that return when they are done"),
        // As `strtoll` has it.
        (&[("NCCL_COMM_BLOCKING", "off")], plain(), "calls of NCCL that return"),
        (&[("NCCL_COMM_ID", "10.0.0.1:29500")], plain(), "all of them meet at one address"),
        (&[("NCCL_LAUNCH_MODE", "group")], plain(), "whose call does not wait for other ranks"),
        (&[("NCCL_CHECK_MODE", "DEBUG_GLOBAL")], plain(), "as DEBUG_LOCAL leaves them"),
        (&[("NCCL_COMM_SPLIT_SHARE_RESOURCES", "1")], plain(), "`CommConfig::split_share`"),
        (&[("NCCL_COMM_SHRINK_SHARE_RESOURCES", "1")], plain(), "`CommConfig::shrink_share`"),
        (&[("NCCL_NUM_RMA_CTX", "1")], of().contexts(2).build(), "`CommConfig::contexts` needs"),
        (&[("NCCL_RMA_EAGER_INIT", "0")], of().early_signals(true).build(), "to set up signals"),
        (
            &[("NCCL_LOCAL_REGISTER", "0")],
            of().transfers(Transfers::Registered).build(),
            "`Transfers::Registered` needs NCCL to register memory",
        ),
        (
            &[("NCCL_P2P_USE_CUDA_MEMCPY", "1")],
            of().transfers(Transfers::Registered).build(),
            "`Transfers::Registered` needs NCCL to register memory",
        ),
        (
            &[("NCCL_GRAPH_STREAM_ORDERING", "0")],
            of().graphs(GraphUse::One(CaptureOrder::Kept)).build(),
            "`CaptureOrder::Kept` needs NCCL to order",
        ),
        (
            &[("NCCL_LAUNCH_ORDER_IMPLICIT", "0")],
            of().launch_order(LaunchOrder::Calls).build(),
            "`LaunchOrder::Calls` needs NCCL to order",
        ),
    ]
}

#[test]
fn what_breaks_a_promise_is_refused_by_name() {
    for (variables, ..) in broken() {
        on(with(variables), || {
            for (known, config, why) in broken() {
                let [(name, value)] = known else { panic!("one each") };
                if std::env::var_os(name).is_some_and(|found| found == *value) {
                    let found = format!("{name}={value} is set: unset it");
                    assert_error!(connect(config), Unsupported, why, found);
                }
            }
            assert_eq!(count(ncclCommInitRankConfig), 0);
            Ok(())
        });
    }
}

const SHARED: Variables = &[("NCCL_MULTI_RANK_GPU_ENABLE", "1")];

/// Eight ranks on the four GPUs of the machine.
fn eight() -> Result<Vec<u32>> {
    Cuda::spmd(8, |place| {
        let mut comm = place.init()?;
        comm.split::<Half>(0, 0)?.finish()?;
        let ordinal = comm.device().ordinal();
        comm.finish()?;
        Ok(ordinal)
    })
}

#[test]
fn ranks_share_a_gpu_where_nccl_is_told_so() {
    on(with(SHARED), || {
        assert_eq!(eight()?, [0, 1, 2, 3, 0, 1, 2, 3]);
        let twice = || Cuda::<AnyDevice>::open_each(&[2, 2]);
        Clique::init(twice()?)?.finish()
    });
    on(NEWEST, || {
        assert_error!(eight(), NoSuchDevice, "cuda:7", "sees 4 GPUs");
        let twice = Clique::init(Cuda::<AnyDevice>::open_each(&[2, 2])?);
        let remedy = "set NCCL_MULTI_RANK_GPU_ENABLE=1 for all ranks (NCCL 2.30.3 and later)";
        assert_error!(twice, InitFailed, "ranks 0 and 1 are both on cuda:2; give each", remedy);
        Ok(())
    });
    on(Machine { variables: SHARED, ..release("2.29.7") }, || {
        let why = "they can share one with NCCL 2.30.3 and later";
        assert_error!(eight(), InitFailed, "ranks 0 and 4 are both on cuda:0; each needs", why);
        assert_eq!(count(ncclCommInitRankConfig), 0);
        Ok(())
    });
}

/// NCCL's end of a communicator may wait for all work on the GPU, and keeps other ranks from
/// launching what that work waits for.
#[test]
fn nccl_destroys_communicators_of_a_shared_gpu_after_the_last_has_ended() {
    on(with(SHARED), || {
        Cuda::spmd(8, |place| {
            let mut comm = place.init()?;
            comm.split::<Half>(0, 0)?.finish()?;
            drop(comm.split::<Half>(0, 0)?);
            comm.barrier()?;
            assert_eq!(count(ncclCommDestroy), 0);
            comm.barrier()?;
            comm.finish()
        })?;
        while nccl().live().communicators > 0 {
            std::thread::yield_now();
        }
        assert_eq!((count(ncclCommDestroy), count(ncclCommAbort)), (24, 0));
        Ok(())
    });
}

#[test]
fn what_only_tunes_is_left_to_nccl() {
    let variables: Variables = &[
        ("NCCL_COMM_BLOCKING", "1"),
        ("NCCL_CHECK_MODE", "DEBUG_LOCAL"),
        ("NCCL_COMM_SPLIT_SHARE_RESOURCES", "0"),
        ("NCCL_COMM_SHRINK_SHARE_RESOURCES", "0"),
        ("NCCL_GRAPH_STREAM_ORDERING", "0"),
        ("NCCL_LAUNCH_ORDER_IMPLICIT", "1"),
        ("NCCL_LOCAL_REGISTER", "0"),
        ("NCCL_MAX_CTAS", "4"),
        ("NCCL_NUM_RMA_CTX", "3"),
    ];
    on(with(variables), || connect(CommConfig::builder().contexts(2).build())?.finish());
}

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/doubles/nccl.conf");

#[test]
fn a_file_of_nccls_is_read_too() {
    on(with(&[("NCCL_CONF_FILE", FILE)]), || {
        let found = format!("NCCL_COMM_BLOCKING=0 is set in {FILE}: take it out");
        assert_error!(alone(), Unsupported, found);
        assert_eq!(count(ncclCommInitRankConfig), 0);
        Ok(())
    });
    // The process's own variables come first.
    on(with(&[("NCCL_CONF_FILE", FILE), ("NCCL_COMM_BLOCKING", "1")]), || {
        let found = format!("NCCL_COMM_ID=127.0.0.1:7 is set in {FILE}: take it out");
        assert_error!(alone(), Unsupported, found);
        Ok(())
    });
}

/// The released library reads the same files; an id needs no GPU.
#[test]
fn the_release_reads_the_file() {
    let Some(machine) = real("2.32.3") else { return };
    on(Machine { variables: &[("NCCL_CONF_FILE", FILE)], ..machine }, || {
        // SAFETY: the scenario's machine has a released library.
        let api = unsafe { Api::load() }.expect("it is there");
        let mut id = ncclUniqueId::from_bytes([0; 128]);
        // SAFETY: `id` is valid for a write.
        let result = unsafe { api.ncclGetUniqueId().expect("it is there")(&raw mut id) };
        assert_eq!(result, ncclResult_t::ncclSuccess);
        // After a number of NCCL's, a socket's address: IPv4, port 7, 127.0.0.1.
        assert_eq!(id.to_bytes()[8..16], [2, 0, 0, 7, 127, 0, 0, 1]);
        Ok(())
    });
}

/// The released library looks for the variables that the documentation names.
#[test]
fn the_release_has_the_variables() {
    let Some(Machine { nccl: Nccl::Released(version), .. }) = real("2.32.3") else { return };
    // Its texts precede its kernels, which are most of it.
    let (mut library, file) = (Vec::new(), File::open(released(version)).expect("it was fetched"));
    file.take(8 << 20).read_to_end(&mut library).expect("it can be read");
    let texts: HashSet<_> = library.split(|byte| *byte == 0).collect();
    let table = include_str!("../../docs/guide/src/environment.md");
    let names = table.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    for name in names.filter(|name| name.starts_with("NCCL_")) {
        assert!(texts.contains(name.as_bytes()), "NCCL {version} has no {name}");
    }
}

#[test]
fn windows_that_are_turned_off_are_refused() {
    for variables in [&[("NCCL_WIN_ENABLE", "0")], &[("NCCL_CUMEM_ENABLE", "0")]] {
        on(with(variables), || {
            let mut comm = alone()?;
            assert_error!(comm.window::<f32>(8), Unsupported, "a window needs", "=0 is set");
            assert_eq!(count(ncclCommWindowRegister), 0);
            comm.finish()
        });
    }
}

/// The default of one context is no reason to refuse a communicator.
#[test]
fn one_sided_operations_that_are_turned_off_are_refused() {
    for variables in [&[("NCCL_NUM_RMA_CTX", "0")], &[("NCCL_RMA_DISABLE", "1")]] {
        on(with(variables), || {
            let mut comm = alone()?;
            let window = comm.window::<f32>(8)?;
            let outcome = comm.put_signal(window.slice(0..4), 0, window.at(4));
            assert_error!(outcome, Unsupported, "put_signal needs", "NCCL_", " is set: unset it");
            assert_eq!(count(ncclPutSignal), 0);
            drop(window);
            comm.finish()
        });
    }
}

#[test]
fn graphs_that_are_turned_off_are_refused() {
    on(with(&[("NCCL_GRAPH_MIXING_SUPPORT", "0")]), || {
        let mut comm = alone()?;
        let mut x = comm.device().zeros::<f32>(8)?;
        let outcome = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum));
        assert_error!(outcome, Unsupported, "a graph needs", "NCCL_GRAPH_MIXING_SUPPORT=0 is set");
        comm.all_reduce_in_place(&mut x, Sum)?;
        let mixed = CommConfig::builder().graphs(GraphUse::Mixed).build();
        assert_error!(connect(mixed), Unsupported, "NCCL_GRAPH_MIXING_SUPPORT=0 is set: unset it");
        comm.finish()
    });
}

#[test]
fn a_communicator_without_a_memory_manager_is_not_suspended() {
    on(with(&[("NCCL_DISABLE_MEM_MANAGER", "1")]), || {
        let comm = alone()?;
        let Err(failed) = comm.try_suspend() else { panic!("it is refused") };
        assert_error!(Err::<(), _>(failed.error), Unsupported, "NCCL_DISABLE_MEM_MANAGER=1 is set");
        assert_eq!(count(ncclCommSuspend), 0);
        assert_eq!(nccl().live().communicators, 1);
        failed.value.finish()
    });
}
