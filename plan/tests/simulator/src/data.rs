//! What a plan computes (A14), whether it reads what nobody wrote (A15), and whether all schedules
//! leave the same.

mod claims;

use typed_nccl_plan::ir::Postcondition;
use typed_nccl_plan::verdict::Check;

use crate::expand;
use crate::instance::Instance;
use crate::link::Linked;
use crate::machine::{Event, Machine, Rules};
use crate::memory::{Memory, initial};
use crate::number::{Malformed, Scope};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::unit::{Span, Unit};
use crate::value::{Value, collect};

/// One run in one schedule: undefined reads, and the postconditions.
pub(crate) fn check(
    instance: &Instance<'_>,
    units: &[Vec<Unit>],
    outcome: &mut Outcome,
) -> Result<(), Malformed> {
    let linked = Linked::new(instance, units, 1);
    let mut memory = Memory::new(&linked, false);
    Machine::new(&linked, Rules::Orders).run(|event| memory.happen(event));
    let memory = memory.finish();
    if let Some(text) = &memory.undefined {
        outcome.note(Check::Initialised, || text.clone());
    }
    for post in &instance.plan.computes {
        postcondition(&linked, &memory, post, outcome)?;
    }
    for claim in &instance.plan.claims {
        claims::check(&linked, &memory, claim, outcome)?;
    }
    Ok(())
}

fn postcondition(
    linked: &Linked<'_>,
    memory: &Memory<'_>,
    post: &Postcondition,
    outcome: &mut Outcome,
) -> Result<(), Malformed> {
    let instance = linked.instance;
    let before = initial(instance);
    let ranks = instance.ranks();
    let (mut sends, mut recvs): (Vec<Span>, Vec<Span>) = (Vec::new(), Vec::new());
    let mut root = None;
    for rank in 0..ranks {
        let check = Check::Postcondition;
        sends.push(expand::alone(instance, rank, &post.send, check, outcome)?);
        recvs.push(expand::alone(instance, rank, &post.recv, check, outcome)?);
        if let Some(place) = post.kind.root() {
            let counters = vec![None; instance.plan.counters.len()];
            let place =
                Scope { instance, rank: Some(rank), counters: &counters, world: &instance.world }
                    .number(place)?;
            root = usize::try_from(place).ok().filter(|&place| place < ranks);
            if root.is_none() {
                outcome.note(check, || format!("no root {place}"));
                outcome.note(Check::Bounds, || format!("no root {place}"));
                return Ok(());
            }
        }
    }
    let load = |from: &std::collections::BTreeMap<_, Vec<Value>>, rank: usize, span: &Span| {
        let values = from.get(&linked.object(rank, 0, span));
        values.and_then(|values| values.get(span.from..span.to)).unwrap_or(&[]).to_vec()
    };
    let sent: Vec<Vec<Value>> =
        sends.iter().enumerate().map(|(rank, span)| load(&before, rank, span)).collect();
    use typed_nccl_plan::ir::CollectiveKind as Kind;
    let parts = match post.kind {
        Kind::ReduceScatter(_) | Kind::AllToAll | Kind::Scatter(_) => ranks,
        _ => 1,
    };
    for (rank, span) in recvs.iter().enumerate() {
        let sender = match post.kind {
            Kind::Broadcast(_) | Kind::Scatter(_) => root.unwrap_or(rank),
            _ => rank,
        };
        let count = sent[sender].len() / parts;
        if let Some(made) = collect(&post.kind, root, rank, count, &sent) {
            let found = load(&memory.objects, rank, span);
            if made != found {
                outcome.note(Check::Postcondition, || format!("rank {rank} has something else"));
            }
        }
    }
    Ok(())
}

/// Runs in random schedules: what is wrong if they do not all leave the same, or if one shows a
/// race.
pub(crate) fn schedules(linked: &Linked<'_>, random: &mut Random, many: usize) -> Option<String> {
    let mut first = None;
    for _ in 0..many {
        let mut machine = Machine::new(linked, Rules::Orders);
        let mut memory = Memory::new(linked, true);
        let streams = linked.streams.len();
        let mut likes: Vec<u64> = (0..streams).map(|_| random.next()).collect();
        loop {
            let mut best: Option<(u64, usize, Event)> = None;
            for (stream, &like) in likes.iter().enumerate() {
                if let Some(event) = machine.ready(stream)
                    && best.is_none_or(|(most, ..)| most < like)
                {
                    best = Some((like, stream, event));
                }
            }
            let Some((_, stream, event)) = best else { break };
            machine.happen(event);
            memory.happen(event);
            if random.chance(1, 3) {
                likes[stream] = random.next();
            }
        }
        let memory = memory.finish();
        if memory.torn.is_some() {
            return memory.torn;
        }
        match &first {
            None => first = Some(memory.objects),
            Some(before) if *before != memory.objects => {
                return Some("two schedules leave different values".to_owned());
            }
            Some(_) => {}
        }
    }
    None
}
