mod plans;
mod schedules;
#[test]
fn look() {
    for (name, s) in [
        ("ring", schedules::ring_exchange(4, 8)),
        ("halo", schedules::halo(4)),
        ("pipe", schedules::pipeline(4, 4)),
        ("f1b4", schedules::one_f1b(4, 6)),
        ("f1b16", schedules::one_f1b(20, 24)),
        ("hier", schedules::hierarchical(2, 4, 64)),
        ("grad", schedules::gradients(4, 64, 256, true)),
        ("ring20", schedules::ring_exchange(20, 8)),
    ] {
        std::fs::write(format!("/tmp/mm/{name}.svg"), s.schedule.to_svg(&s.plan)).unwrap();
        std::fs::write(format!("/tmp/mm/{name}.mmd"), s.schedule.to_mermaid(&s.plan)).unwrap();
    }
}

#[test]
fn stories() {
    for (name, miss) in [
        ("dead", plans::ring::sends_first()),
        ("race", plans::halo::one_copy_twice()),
        ("race2", plans::halo::one_copy()),
        ("match", plans::halo::claims_two_ranks()),
        ("f1bdead", plans::one_f1b::without_groups()),
        ("credit", plans::halo::two_signals_in_a_graph()),
    ] {
        let refused = miss.plan.check().unwrap_err();
        let p = &refused.rejected().problems[0];
        println!("{}", refused.rejected());
        std::fs::write(format!("/tmp/mm/{name}.svg"), p.to_svg()).unwrap();
        std::fs::write(format!("/tmp/mm/{name}.mmd"), p.to_mermaid()).unwrap();
    }
}
