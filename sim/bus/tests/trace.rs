//! A trace survives the file, plays in time order, and damage is named.

use proptest::prelude::*;
use wattbell_bus::{
    tlp, Body, Burst, Direction, Error, Item, LinkState, Player, Rail, Record, Signal, SortingWriter, Tlp, TraceHeader,
    TraceReader, TraceWriter,
};

fn header() -> TraceHeader {
    TraceHeader { source: "test".into(), timing: "model".into(), notes: vec!["a".into()], ..TraceHeader::default() }
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
        (direction, 1u16.., any::<u32>()).prop_map(|(d, n, s)| burst(d, 4096, n, s)),
        (any::<i64>(), any::<i64>()).prop_map(|(current_na, voltage_nv)| Body::Rail(Rail { current_na, voltage_nv })),
        any::<u8>().prop_map(|v| Body::Sideband(Signal::ClkreqN, v)),
    ]
}

fn any_records() -> impl Strategy<Value = Vec<Record>> {
    prop::collection::vec((0..1u64 << 40, any_body()), 0..40).prop_map(|steps| {
        let mut time_ps = 0;
        steps
            .into_iter()
            .map(|(dt, body)| {
                time_ps += dt;
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
