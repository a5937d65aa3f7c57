//! A trace survives the file, plays in time order, and damage is reported.

use proptest::prelude::*;
use wattbell_bus::summary::{Instants, Summary};
use wattbell_bus::{
    tlp, Body, Burst, Direction, Error, Item, LinkState, Player, Rail, Record, Signal, SortingWriter, Tlp, TraceHeader,
    TraceReader, TraceWriter,
};

fn header() -> TraceHeader {
    TraceHeader {
        source: "test".into(),
        timing: "model".into(),
        notes: vec!["a".into()],
        summaries: true,
        ..TraceHeader::default()
    }
}

fn write(records: &[Record]) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    for record in records {
        writer.record(record).unwrap();
    }
    let end = records.last().map_or(0, |r| r.time_ps);
    writer.finish(end).unwrap()
}

fn burst(direction: Direction, address: u64, count: u16, step_ps: u32) -> Body {
    let header = tlp::mem_write_header(0x100, 0, address, 256);
    Body::Burst(Burst { direction, header, count, step_ps, step_bytes: 256 })
}

fn any_body() -> impl Strategy<Value = Body> {
    let direction = prop_oneof![Just(Direction::Down), Just(Direction::Up)];
    prop_oneof![
        (direction.clone(), any::<u64>(), prop::collection::vec(any::<u8>(), 1..100))
            .prop_map(|(d, a, data)| Body::Tlp(d, tlp::mem_write(1, 2, a >> 2, &data))),
        (direction.clone(), any::<u32>())
            .prop_map(|(d, a)| Body::Tlp(d, Tlp::left_out(tlp::mem_write_header(3, 0, u64::from(a), 64)))),
        direction.clone().prop_map(Body::Missed),
        (direction, 1u16.., any::<u32>()).prop_map(|(d, n, s)| burst(d, 4096, n, s)),
        (any::<i64>(), any::<i64>()).prop_map(|(current_na, voltage_nv)| Body::Rail(Rail { current_na, voltage_nv })),
        any::<u8>().prop_map(|v| Body::Sideband(Signal::ClkreqN, v)),
        any_summary().prop_map(Body::Summary),
    ]
}

/// Generates a summary; its instants are offsets, made absolute by [`any_records`].
fn any_summary() -> impl Strategy<Value = Summary> {
    let words = (any::<u8>(), any::<u8>(), any::<u16>(), any::<u16>(), any::<u16>(), any::<u32>(), any::<u32>());
    let absent = prop::array::uniform6(prop::option::of(0u64..1 << 38));
    (words, any::<u64>(), absent, 0u64..1 << 38).prop_map(
        |((opcode, flags, qid, cid, status, nsid, blocks), slba, t, cqe)| {
            let t = t.map(|x| x.unwrap_or(Instants::ABSENT));
            let instants = Instants {
                doorbell_ps: t[0],
                fetch_ps: t[1],
                first_data_ps: t[2],
                last_data_ps: t[3],
                cqe_ps: cqe,
                msix_ps: t[4],
                cq_head_ps: t[5],
            };
            Summary { opcode, qid, cid, status, nsid, blocks, slba, flags, instants }
        },
    )
}

/// The summary with every instant `by_ps` later.
fn later(mut summary: Summary, by_ps: u64) -> Summary {
    let i = &mut summary.instants;
    for t in [
        &mut i.doorbell_ps,
        &mut i.fetch_ps,
        &mut i.first_data_ps,
        &mut i.last_data_ps,
        &mut i.cqe_ps,
        &mut i.msix_ps,
        &mut i.cq_head_ps,
    ] {
        *t = t.saturating_add(by_ps);
    }
    summary
}

fn any_records() -> impl Strategy<Value = Vec<Record>> {
    prop::collection::vec((0..1u64 << 40, any_body()), 0..40).prop_map(|steps| {
        let mut time_ps = 0;
        steps
            .into_iter()
            .map(|(dt, body)| {
                time_ps += dt;
                let mut body = body;
                if let Body::Summary(summary) = body {
                    body = Body::Summary(later(summary, time_ps));
                    time_ps += summary.instants.last_ps();
                }
                Record { time_ps, body }
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn records_come_back_as_written(records in any_records()) {
        let file = write(&records);
        let mut reader = TraceReader::new(&file[..]).unwrap();
        prop_assert_eq!(reader.header(), &header());
        let mut back: Vec<_> = reader.by_ref().map(|r| r.unwrap()).collect();
        prop_assert!(reader.ended());
        prop_assert_eq!(back.pop().unwrap().body, Body::End);
        prop_assert_eq!(back, records);
    }

    #[test]
    fn a_cut_file_yields_what_lies_before_the_cut(records in any_records(), cut in any::<prop::sample::Index>()) {
        let file = write(&records);
        let cut = cut.index(file.len());
        match TraceReader::new(&file[..cut]) {
            Err(e) => prop_assert!(matches!(e, Error::NotATrace(_))),
            Ok(mut reader) => {
                let mut back = Vec::new();
                for item in reader.by_ref() {
                    match item {
                        Ok(record) => back.push(record),
                        Err(e) => prop_assert!(e.to_string().contains("damaged at byte")),
                    }
                }
                prop_assert!(!reader.ended());
                prop_assert_eq!(&back[..], &records[..back.len()]);
            }
        }
    }

    #[test]
    fn damaged_bytes_never_panic(records in any_records(), at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let mut file = write(&records);
        let at = at.index(file.len());
        file[at] = with;
        if let Ok(reader) = TraceReader::new(&file[..]) {
            Player::new(reader).take(10_000).for_each(drop);
        }
    }

    #[test]
    fn sorting_writer_orders_by_time_and_arrival(times in prop::collection::vec(0u64..50, 1..60)) {
        let mut writer = SortingWriter::new(TraceWriter::new(Vec::new(), &header()).unwrap());
        for (i, &time_ps) in times.iter().enumerate() {
            writer.push(Record { time_ps, body: Body::Sideband(Signal::PerstN, i as u8) }).unwrap();
        }
        let file = writer.finish(0).unwrap();
        let mut want: Vec<_> = times.iter().enumerate().map(|(i, &t)| (t, i as u8)).collect();
        want.sort();
        let got: Vec<_> = TraceReader::new(&file[..]).unwrap().filter_map(|r| match r.unwrap() {
            Record { time_ps, body: Body::Sideband(_, v) } => Some((time_ps, v)),
            _ => None,
        }).collect();
        prop_assert_eq!(got, want);
    }
}

#[test]
fn bursts_play_merged_with_the_records_after_them() {
    let rail = Body::Rail(Rail { current_na: 1, voltage_nv: 2 });
    let file = write(&[
        Record { time_ps: 100, body: burst(Direction::Up, 0xFFFF_FF00, 3, 10) },
        Record { time_ps: 105, body: burst(Direction::Down, 0x1_0000_0000, 2, 10) },
        Record { time_ps: 112, body: rail.clone() },
        Record { time_ps: 121, body: Body::Tlp(Direction::Up, tlp::mem_read(1, 0, 64, 64)) },
        Record { time_ps: 130, body: Body::Sideband(Signal::LinkState, LinkState::L1_2 as u8) },
    ]);
    let events: Vec<_> = Player::new(TraceReader::new(&file[..]).unwrap()).map(|e| e.unwrap()).collect();
    assert_eq!(events.iter().map(|e| e.time_ps).collect::<Vec<_>>(), [100, 105, 110, 112, 115, 120, 121, 130, 130]);
    let Item::Tlp(Direction::Down, second) = &events[4].item else { panic!("{:?}", events[4]) };
    assert_eq!(second.header.as_bytes()[8..], 0x1_0000_0100u64.to_be_bytes());
    assert_eq!(second.payload, None);
    assert_eq!(events[8].item, Item::End);
}

#[test]
fn a_tlp_inside_a_burst_of_its_direction_is_refused() {
    let file = write(&[
        Record { time_ps: 0, body: burst(Direction::Up, 0, 3, 10) },
        Record { time_ps: 15, body: Body::Tlp(Direction::Up, tlp::mem_read(1, 0, 64, 64)) },
    ]);
    let last = Player::new(TraceReader::new(&file[..]).unwrap()).last().unwrap();
    assert!(matches!(last, Err(Error::Order(_))), "{last:?}");
}

#[test]
fn time_may_not_go_back() {
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    writer.sideband(5, Signal::PerstN, 1).unwrap();
    assert!(matches!(writer.sideband(4, Signal::PerstN, 0), Err(Error::Order(_))));
}

fn command(cqe_ps: u64) -> Summary {
    let none = Instants::ABSENT;
    let instants = Instants {
        doorbell_ps: 5,
        fetch_ps: 6,
        first_data_ps: none,
        last_data_ps: none,
        cqe_ps,
        msix_ps: none,
        cq_head_ps: none,
    };
    Summary { opcode: 2, qid: 1, cid: 7, status: 0, nsid: 1, blocks: 8, slba: 99, flags: 0, instants }
}

#[test]
fn a_summary_stands_at_its_last_instant() {
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    writer.summary(command(9)).unwrap();
    let wrong = writer.record(&Record { time_ps: 11, body: Body::Summary(command(10)) });
    assert!(wrong.unwrap_err().to_string().contains("last instant is 10 ps"));
    let absent = writer.record(&Record { time_ps: 11, body: Body::Summary(command(Instants::ABSENT)) });
    assert!(absent.unwrap_err().to_string().contains("without a CQE"));
    let file = writer.finish(20).unwrap();
    let first = Player::new(TraceReader::new(&file[..]).unwrap()).next().unwrap().unwrap();
    assert_eq!((first.time_ps, first.item), (9, Item::Summary(command(9))));
}

#[test]
fn summaries_are_announced_in_the_header() {
    let plain = TraceHeader { summaries: false, ..header() };
    let mut writer = TraceWriter::new(Vec::new(), &plain).unwrap();
    assert!(writer.summary(command(9)).unwrap_err().to_string().contains("announce"));
    let record = write(&[Record { time_ps: 9, body: Body::Summary(command(9)) }]);
    let announced = record.windows(17).position(|w| w == br#""summaries":true}"#).unwrap();
    let mut hidden = record.clone();
    hidden[announced + 1..announced + 10].copy_from_slice(b"someother");
    let error = TraceReader::new(&hidden[..]).unwrap().next().unwrap().unwrap_err();
    assert!(error.to_string().contains("summaries"), "{error}");
}
