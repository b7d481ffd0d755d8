//! Configurations: what NCCL receives, and what is refused before it is called.

use std::ffi::{CStr, c_char, c_int};
use std::thread;

use fake_nccl::Call;
use nccl_sys::Function::{
    ncclCommAbort, ncclCommInitRankConfig, ncclCommInitRankScalable, ncclCommShrink, ncclCommSplit,
};
use nccl_sys::{Function, Layout, NCCL_CONFIG_UNDEF_INT, NCCL_SHRINK_DEFAULT, ncclConfig_t};
use typed_nccl::{
    AnyDevice, CaptureOrder, CommConfig, Communicator, CountedTransfers, CtaPolicy, Ctas, Cuda,
    GraphUse, LaunchOrder, Multicast, Network, Result, Seat, Sum, UniqueId, tag,
};

use crate::common::{calls, clear, count, until};
use crate::scenario::{NEWEST, on, release};

tag!(Child);

type Comm = Communicator<Cuda<AnyDevice>>;

/// All options, each with a distinct value.
fn all() -> CommConfig {
    let ctas = Ctas::between(3, 17).cluster(5).multicast(9).policy(CtaPolicy::Efficiency);
    let network = Network::named("Socket").traffic_class(106).channels_per_peer(6).collnet(true);
    CommConfig::builder()
        .contexts(2)
        .signals(4)
        .ctas(ctas)
        .network(network)
        .p2p_peers(7)
        .nvlink_first(true)
        .multicast(Multicast::WithoutSymmetric)
        .counted_transfers(CountedTransfers::WhereThere)
        .graphs(GraphUse::One(CaptureOrder::Free))
        .launch_order(LaunchOrder::Calls)
        .early_signals(true)
        .build()
}

/// The fields that NCCL receives.
const ALL: [(&str, c_int); 17] = [
    ("numRmaCtx", 2),
    ("numRmaSig", 4),
    ("minCTAs", 3),
    ("maxCTAs", 17),
    ("cgaClusterSize", 5),
    ("nvlsCTAs", 9),
    ("CTAPolicy", 1),
    ("trafficClass", 106),
    ("nChannelsPerNetPeer", 6),
    ("collnetEnable", 1),
    ("maxP2pPeers", 7),
    ("nvlinkCentricSched", 1),
    ("nvlsHostMode", 2),
    ("hostCftMode", 3),
    ("graphUsageMode", 1),
    ("launchOrderImplicit", 1),
    ("rmaEagerInit", 1),
];

/// Fields that this library sets: blocking calls, and the label.
const OURS: [&str; 2] = ["blocking", "commName"];

/// The integers that a call's configuration sets.
fn set(call: &Call) -> Vec<(&'static str, c_int)> {
    let header = ["size", "magic", "version", "netName", "commName"];
    let fields = ncclConfig_t::FIELDS.iter().filter(|field| !header.contains(&field.name));
    let value = |name| call.field::<ncclConfig_t, c_int>("config", name);
    let all = fields.map(|field| (field.name, value(field.name)));
    all.filter(|(_, value)| *value != NCCL_CONFIG_UNDEF_INT).collect()
}

fn sorted(mut all: Vec<(&'static str, c_int)>) -> Vec<(&'static str, c_int)> {
    all.sort_unstable();
    all
}

#[track_caller]
fn has_all(call: &Call, and: &[(&'static str, c_int)]) {
    // The ordering of captured operations depends on the mode.
    let wanted = [&ALL[..], &[("graphStreamOrdering", 0)], and].concat();
    assert_eq!(sorted(set(call)), sorted(wanted), "{}", call.function);
    let address = call.field::<ncclConfig_t, usize>("config", "netName");
    let name = std::ptr::with_exposed_provenance::<c_char>(address);
    // SAFETY: names are never freed, and end with a zero.
    assert_eq!(unsafe { CStr::from_ptr(name) }, c"Socket");
}

fn only(function: Function) -> Call {
    let mut calls = calls(function);
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls.remove(0)
}

fn connect(seat: Seat, config: CommConfig) -> Result<Comm> {
    let ordinal = seat.rank().index() as u32;
    connect_on(seat, ordinal, config)
}

fn connect_on(seat: Seat, ordinal: u32, config: CommConfig) -> Result<Comm> {
    let builder = Communicator::builder().seat(seat).device(Cuda::<AnyDevice>::any(ordinal)?);
    builder.config(config).build().connect()
}

fn alone(config: CommConfig) -> Result<Comm> {
    connect(Seat::local(1).remove(0), config)
}

#[test]
fn every_field_of_nccls_has_an_option() {
    let split_share = ["splitShare", "shrinkShare", "graphStreamOrdering", "netName"];
    for field in &ncclConfig_t::FIELDS[3..] {
        let known = ALL.iter().any(|(name, _)| *name == field.name)
            || OURS.contains(&field.name)
            || split_share.contains(&field.name);
        assert!(known, "{} has no option", field.name);
    }
}

#[test]
fn every_option_arrives() {
    on(NEWEST, || {
        let mut comm = alone(all())?;
        has_all(&only(ncclCommInitRankConfig), &[]);
        comm.split::<Child>(0, 0)?.finish()?;
        // Children have their parents' configuration.
        has_all(&only(ncclCommSplit), &[]);
        clear();
        let plain = CommConfig::builder().ctas(Ctas::at_most(2)).build();
        comm.split_with::<Child>(0, 0, plain)?.finish()?;
        assert_eq!(set(&only(ncclCommSplit)), [("minCTAs", 1), ("maxCTAs", 2)]);
        comm.finish()
    });
}

/// The value of a field, for a communicator of this configuration.
fn number(config: CommConfig, field: &str) -> Result<c_int> {
    clear();
    alone(config)?.finish()?;
    Ok(only(ncclCommInitRankConfig).field::<ncclConfig_t, c_int>("config", field))
}

#[test]
fn each_choice_is_nccls_number() {
    on(NEWEST, || {
        let of = CommConfig::builder;
        for (choice, wanted) in [
            (CountedTransfers::Auto, NCCL_CONFIG_UNDEF_INT),
            (CountedTransfers::On, 1),
            (CountedTransfers::Off, 2),
            (CountedTransfers::WhereThere, 3),
        ] {
            let found = number(of().counted_transfers(choice).build(), "hostCftMode")?;
            assert_eq!(found, wanted, "{choice:?}");
        }
        for (choice, wanted) in [
            (Multicast::Auto, NCCL_CONFIG_UNDEF_INT),
            (Multicast::On, 0),
            (Multicast::WithoutTransport, 1),
            (Multicast::WithoutSymmetric, 2),
            (Multicast::Off, c_int::MAX),
        ] {
            let found = number(of().multicast(choice).build(), "nvlsHostMode")?;
            assert_eq!(found, wanted, "{choice:?}");
        }
        for (choice, wanted) in
            [(CtaPolicy::Speed, 0), (CtaPolicy::Efficiency, 1), (CtaPolicy::Zero, 2)]
        {
            let found = number(of().ctas(Ctas::any().policy(choice)).build(), "CTAPolicy")?;
            assert_eq!(found, wanted, "{choice:?}");
        }
        Ok(())
    });
}

#[test]
fn every_option_arrives_by_several_ids() {
    on(NEWEST, || {
        let ids = [UniqueId::new()?, UniqueId::new()?];
        thread::scope(|scope| {
            let join = |rank| connect(Seat::with_ids(&ids, rank, 2)?, all())?.finish();
            let ranks = [0, 1].map(|rank| scope.spawn(move || join(rank)));
            ranks.into_iter().try_for_each(|rank| rank.join().expect("no panic"))
        })?;
        let calls = calls(ncclCommInitRankScalable);
        assert_eq!((calls.len(), count(ncclCommInitRankConfig)), (2, 0));
        for call in &calls {
            assert_eq!(call.int("nId"), 2);
            has_all(call, &[]);
        }
        Ok(())
    });
}

#[test]
fn every_option_arrives_when_ranks_go_on() {
    on(NEWEST, || {
        Cuda::spmd(2, |place| {
            let (seat, _) = place.into_parts();
            let comm = connect(seat, all())?;
            // Rank 1 has joined when rank 0 proceeds without it.
            let met = comm.barrier();
            if comm.rank().index() == 1 {
                let _ = met.and_then(|()| comm.barrier());
                comm.abort();
                return Ok(());
            }
            met?;
            let comm = comm.shrink(&[1])?;
            has_all(&only(ncclCommShrink), &[]);
            clear();
            let invitation = comm.invite(1)?;
            let comes = invitation.clone();
            let newcomer = thread::spawn(move || -> Result<()> {
                let seat = Seat::invited(&comes, 0)?;
                let device = Cuda::<AnyDevice>::any(2)?;
                let builder = Communicator::builder().seat(seat).device(device);
                builder.config(all()).build().connect()?.finish()
            });
            let comm = comm.grow(invitation)?;
            // The newcomer's thread may be behind.
            until("both join", || count(ncclCommInitRankConfig) == 2);
            let joins = calls(ncclCommInitRankConfig);
            joins.iter().for_each(|join| has_all(join, &[]));
            comm.finish()?;
            newcomer.join().expect("no panic")
        })?;
        Ok(())
    });
}

#[test]
fn a_parent_that_shares_says_so() {
    on(NEWEST, || {
        let mut config = all();
        config.split_share = true;
        alone(config)?.finish()?;
        has_all(&only(ncclCommInitRankConfig), &[("splitShare", 1)]);
        Ok(())
    });
}

/// The exclusions of a call of `ncclCommShrink`.
fn without(call: &Call) -> (i128, i128) {
    (call.int("excludeRanksCount"), call.int("shrinkFlags"))
}

#[test]
fn a_child_without_some_ranks_leaves_its_parent() {
    on(NEWEST, || {
        Cuda::spmd(2, |place| {
            let (seat, _) = place.into_parts();
            let mut world = connect(seat, all())?;
            world.barrier()?;
            if world.rank().index() == 0 {
                let child = world.shrink_child::<Child>(&[1])?;
                let call = only(ncclCommShrink);
                // Children have their parents' configuration.
                has_all(&call, &[]);
                assert_eq!(without(&call), (1, NCCL_SHRINK_DEFAULT.into()));
                assert_eq!((child.size(), count(ncclCommAbort)), (1, 0));
                child.finish()?;
                clear();
                let plain = CommConfig::builder().ctas(Ctas::at_most(2)).build();
                world.shrink_child_with::<Child>(&[1], plain)?.finish()?;
                assert_eq!(set(&only(ncclCommShrink)), [("minCTAs", 1), ("maxCTAs", 2)]);
                assert_eq!(count(ncclCommInitRankConfig), 0);
            }
            world.barrier()?;
            let mut x = world.device().from_slice(&[1_u32])?;
            world.all_reduce_in_place(&mut x, Sum)?;
            world.finish()
        })
        .map(drop)
    });
}

/// Only a child that borrows its parent may use the parent's resources.
#[test]
fn a_parent_that_shares_with_those_who_stay_says_so() {
    on(NEWEST, || {
        let config = || CommConfig::builder().shrink_share(true).build();
        Cuda::spmd(2, |place| {
            let (seat, _) = place.into_parts();
            let mut world = connect(seat, config())?;
            world.barrier()?;
            if world.rank().index() == 0 {
                for call in calls(ncclCommInitRankConfig) {
                    assert_eq!(set(&call), [("shrinkShare", 1)]);
                }
                world.shrink_shared::<Child>(&[1])?.finish()?;
                assert_eq!(without(&only(ncclCommShrink)), (1, NCCL_SHRINK_DEFAULT.into()));
                clear();
                world.shrink_child::<Child>(&[1])?.finish()?;
                assert_eq!((count(ncclCommShrink), count(ncclCommInitRankConfig)), (0, 1));
            }
            world.barrier()?;
            world.finish()
        })
        .map(drop)
    });
    on(release("2.26.5"), || {
        let config = CommConfig::builder().shrink_share(true).build();
        assert_error!(alone(config), Unsupported, "shrinkShare) needs NCCL 2.27");
        Ok(())
    });
}

#[test]
fn ranks_go_on_with_another_configuration() {
    on(NEWEST, || {
        Cuda::spmd(2, |place| {
            let (seat, _) = place.into_parts();
            let comm = connect(seat, all())?;
            let met = comm.barrier();
            if comm.rank().index() == 1 {
                let _ = met.and_then(|()| comm.barrier());
                comm.abort();
                return Ok(());
            }
            met?;
            let slots = CommConfig::builder().contexts(3).signals(1).build();
            let comm = comm.shrink_with(&[1], slots.clone())?;
            assert_eq!(set(&only(ncclCommShrink)), [("numRmaCtx", 3), ("numRmaSig", 1)]);
            assert!(comm.signal_in(2, 0).is_ok() && comm.signal_in(3, 0).is_err());
            clear();
            let invitation = comm.invite(1)?;
            let comes = invitation.clone();
            let newcomer = thread::spawn(move || -> Result<()> {
                let seat = Seat::invited(&comes, 0)?;
                connect_on(seat, 2, CommConfig::builder().p2p_peers(4).build())?.finish()
            });
            let comm = comm.grow_with(invitation, CommConfig::builder().p2p_peers(4).build())?;
            until("both join", || count(ncclCommInitRankConfig) == 2);
            for join in calls(ncclCommInitRankConfig) {
                assert_eq!(set(&join), [("maxP2pPeers", 4)]);
            }
            assert!(comm.signal_in(1, 0).is_err());
            comm.finish()?;
            newcomer.join().expect("no panic")
        })?;
        Ok(())
    });
}

#[test]
fn no_one_sided_operations_are_none() {
    on(NEWEST, || {
        let mut comm = alone(CommConfig::builder().contexts(0).build())?;
        assert_eq!(set(&only(ncclCommInitRankConfig)), [("numRmaCtx", 0)]);
        let window = comm.window::<f32>(4)?;
        let refused = comm.signal(0);
        assert_error!(refused, NoSuchSignal, "0 contexts");
        drop(comm.close(window)?);
        comm.finish()
    });
}

/// Options that a release lacks are refused by name, and nothing is called.
#[test]
fn an_option_that_the_release_lacks_is_named() {
    let cases = || {
        let of = CommConfig::builder;
        [
            (
                "2.28.3",
                of().graphs(GraphUse::Mixed).build(),
                "`CommConfig::graphs` (NCCL's graphUsageMode) needs NCCL 2.29.2",
            ),
            ("2.28.3", of().contexts(0).build(), "without one-sided operations needs NCCL 2.29.2"),
            (
                "2.28.3",
                of().p2p_peers(2).build(),
                "`CommConfig::p2p_peers` (NCCL's maxP2pPeers) needs NCCL 2.30.3",
            ),
            (
                "2.28.3",
                of().launch_order(LaunchOrder::Calls).build(),
                "launchOrderImplicit) needs NCCL 2.31.2",
            ),
            (
                "2.28.3",
                of().counted_transfers(CountedTransfers::Off).build(),
                "hostCftMode) needs NCCL 2.31.2",
            ),
            ("2.31.2", of().multicast(Multicast::Off).build(), "nvlsHostMode) needs NCCL 2.32.3"),
            (
                "2.27.7",
                of().ctas(Ctas::any().policy(CtaPolicy::Zero)).build(),
                "`CtaPolicy::Zero` needs NCCL 2.28.3",
            ),
            ("2.27.7", of().nvlink_first(false).build(), "nvlinkCentricSched) needs NCCL 2.28.3"),
            (
                "2.27.7",
                of().network(Network::any().channels_per_peer(2)).build(),
                "nChannelsPerNetPeer) needs NCCL 2.28.3",
            ),
        ]
    };
    for known in ["2.27.7", "2.28.3", "2.31.2"] {
        on(release(known), || {
            for (release, config, why) in cases() {
                if release == known {
                    assert_error!(alone(config), Unsupported, why, format!("{known} is loaded"));
                    assert_eq!(count(ncclCommInitRankConfig), 0);
                }
            }
            // Options that it has are passed on.
            alone(CommConfig::builder().ctas(Ctas::between(2, 8).multicast(4)).build())?
                .finish()?;
            let wanted = sorted(vec![("minCTAs", 2), ("maxCTAs", 8), ("nvlsCTAs", 4)]);
            assert_eq!(sorted(set(&only(ncclCommInitRankConfig))), wanted);
            Ok(())
        });
    }
}

#[test]
fn a_child_whose_options_the_release_lacks_is_refused() {
    on(release("2.28.3"), || {
        let mut comm = alone(CommConfig::default())?;
        let config = CommConfig::builder().multicast(Multicast::Off).build();
        assert_error!(comm.split_with::<Child>(0, 0, config), Unsupported, "nvlsHostMode");
        assert_eq!(count(ncclCommSplit), 0);
        comm.finish()
    });
}
