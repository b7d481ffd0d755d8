mod schedules;
#[test]
fn look() {
    for (name, s) in [("ring", schedules::ring_exchange(4, 8)), ("halo", schedules::halo(4)), ("pipe", schedules::pipeline(4, 4)), ("f1b4", schedules::one_f1b(4, 6)), ("f1b16", schedules::one_f1b(20, 24)), ("hier", schedules::hierarchical(2, 4, 64)), ("grad", schedules::gradients(4, 64, 256, true)), ("ring20", schedules::ring_exchange(20, 8))] {
        std::fs::write(format!("/tmp/mm/{name}.svg"), s.schedule.to_svg(&s.plan)).unwrap();
        std::fs::write(format!("/tmp/mm/{name}.mmd"), s.schedule.to_mermaid(&s.plan)).unwrap();
    }
}
