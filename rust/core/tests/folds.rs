//! Items that a handle folded before, and overviews that it gave: what came since is read and nothing else, and the
//! result is that of a read from zero, whoever wrote, sealed, merged, resumed or sent again in between.

use std::sync::Arc;

use lance_context_core::DatagenStore;
use lance_context_core::storage::Location;
use lance_context_spec::datagen::{
    Cell, Event, EventType, FieldOp, FieldWrite, FoldedItem, Intent, ItemId, Status, StepKind, StepPosition,
    StreamWriter,
};
use lance_context_spec::{OpenOptions, ReadMode};
use proptest::prelude::*;

use crate::faults::{Class, Fault, Faults, Operation, Rule};
use crate::support::{Place, no_grace, run, runtime, spawn};

fn options(writer_id: Option<&str>) -> OpenOptions {
    OpenOptions { read: ReadMode::Latest, writer_id: writer_id.map(str::to_owned), ..no_grace() }
}

async fn open(place: &Place, writer_id: Option<&str>) -> DatagenStore {
    DatagenStore::open(&place.uri(), options(writer_id)).await.unwrap()
}

async fn reader(place: &Place) -> DatagenStore {
    DatagenStore::open_existing(&place.uri(), OpenOptions { read_only: true, ..options(None) }).await.unwrap()
}

fn id(text: &str) -> ItemId {
    ItemId::parse(text).unwrap()
}

fn step(n: i64) -> StepPosition {
    let leaf = StepPosition { step_name: "draft".into(), step_kind: StepKind::Leaf, ..StepPosition::root() };
    StepPosition { iteration: vec![n], ..leaf }
}

fn done(stream: &mut StreamWriter, n: i64) -> Vec<Event> {
    let value = Cell::Int(n);
    let field =
        FieldWrite { field_name: "v".into(), field_type: "int".into(), codec_version: 0, op: FieldOp::Append, value };
    stream.step_completed(&step(n), vec![field], None, n).unwrap()
}

async fn create(log: &DatagenStore, item: &str) -> StreamWriter {
    let mut stream = StreamWriter::new(id(item), "run", "e0").unwrap();
    let event = stream.item_created(None, None, None, 1).unwrap();
    log.append(vec![event], Intent::Open).await.unwrap();
    stream
}

async fn fold(log: &DatagenStore, item: &str) -> FoldedItem {
    log.fold_item(&id(item), false).await.unwrap().unwrap()
}

fn steps(item: &FoldedItem) -> usize {
    item.trajectory.len()
}

#[test]
fn a_fold_reads_what_came_since_and_nothing_else() {
    run(async {
        let place = Place::new();
        let writer = open(&place, None).await;
        let (mut stream, mut other) = (create(&writer, "a").await, create(&writer, "b").await);
        for n in 0..5 {
            writer.append(done(&mut stream, n), Intent::Checkpoint).await.unwrap();
            writer.append(done(&mut other, n), Intent::Checkpoint).await.unwrap();
        }
        writer.flush().await.unwrap();
        let faults = Faults::new(0);
        let wrapped = Location::parse(&place.uri()).unwrap().wrapped(Arc::clone(&faults) as _);
        let reader = DatagenStore::open_at(wrapped, options(Some("reader"))).await.unwrap();
        assert_eq!(steps(&fold(&reader, "a").await), 5);
        let unreadable = || {
            let rule = |class| Rule::new(Fault::Before).on(Operation::Get).of(class);
            faults.inject([rule(Class::Generation), rule(Class::BaseData)]);
        };
        unreadable();
        assert_eq!(steps(&fold(&reader, "a").await), 5);
        reader.fold_item(&id("b"), false).await.unwrap_err();
        writer.append(done(&mut stream, 5), Intent::Checkpoint).await.unwrap();
        let forward = fold(&reader, "a").await;
        assert_eq!(steps(&forward), 6);
        assert_eq!(forward, fold(&writer, "a").await);
        // What is merged was seen before it was.
        writer.merge().await.unwrap();
        assert_eq!(fold(&reader, "a").await, forward);
        // What was not is read from the start.
        writer.flush().await.unwrap();
        writer.merge().await.unwrap();
        reader.fold_item(&id("a"), false).await.unwrap_err();
        faults.heal();
        assert_eq!(fold(&reader, "a").await, forward);
        unreadable();
        assert_eq!(fold(&reader, "a").await, forward);
        faults.heal();
    });
}

#[test]
fn an_overview_reads_what_came_since_and_nothing_else() {
    run(async {
        let place = Place::new();
        let writer = open(&place, None).await;
        let mut stream = create(&writer, "a").await;
        writer.append(done(&mut stream, 0), Intent::Checkpoint).await.unwrap();
        writer.flush().await.unwrap();
        writer.merge().await.unwrap();
        writer.append(done(&mut stream, 1), Intent::Checkpoint).await.unwrap();
        writer.flush().await.unwrap();
        let faults = Faults::new(0);
        let wrapped = Location::parse(&place.uri()).unwrap().wrapped(Arc::clone(&faults) as _);
        let reader = DatagenStore::open_at(wrapped, options(Some("reader"))).await.unwrap();
        let counts = async || {
            let overview = reader.overview().await.unwrap();
            (overview.items, overview.running, overview.completed, overview.completed_steps["draft"])
        };
        assert_eq!(counts().await, (1, 1, 0, 2));
        let rule = |class| Rule::new(Fault::Before).on(Operation::Get).of(class);
        faults.inject([rule(Class::Generation), rule(Class::BaseData)]);
        assert_eq!(counts().await, (1, 1, 0, 2));
        writer.append(done(&mut stream, 2), Intent::Checkpoint).await.unwrap();
        let mut other = create(&writer, "b").await;
        assert_eq!(counts().await, (2, 2, 0, 3));
        writer.append(vec![other.item_terminal(Status::Completed, None, 3).unwrap()], Intent::Append).await.unwrap();
        assert_eq!(counts().await, (2, 1, 1, 3));
        faults.heal();
        assert_eq!(reader.pending(vec![id("a"), id("b"), id("c")]).await.unwrap(), [id("a"), id("c")]);
        // Sealed rows come again, in another order.
        writer.flush().await.unwrap();
        assert_eq!(counts().await, (2, 1, 1, 3));
        writer.merge().await.unwrap();
        writer.append(done(&mut stream, 4), Intent::Checkpoint).await.unwrap();
        assert_eq!(counts().await, (2, 1, 1, 4));
    });
}

/// An item that was there before its first fold, and one whose writer comes from a shard that did not exist then.
#[test]
fn a_new_writers_events_are_seen_by_the_next_read() {
    run(async {
        let place = Place::new();
        let one = open(&place, Some("one")).await;
        let mut stream = create(&one, "a").await;
        one.append(done(&mut stream, 0), Intent::Checkpoint).await.unwrap();
        let notebook = reader(&place).await;
        let before = fold(&notebook, "a").await;
        for n in 1..6 {
            let other = open(&place, Some(&format!("writer {n}"))).await;
            let folded = fold(&other, "a").await;
            let mut resumed = StreamWriter::resuming(&folded, "run", &format!("e{n}")).unwrap();
            other.append(done(&mut resumed, n), Intent::Checkpoint).await.unwrap();
            for log in [&notebook, &one] {
                assert_eq!(fold(log, "a").await, fold(&other, "a").await);
            }
        }
        let item = fold(&notebook, "a").await;
        assert_eq!((steps(&before), steps(&item), item.last_attempt, item.fenced.len()), (1, 6, 5, 0));
    });
}

#[derive(Debug, Clone, Copy)]
enum Act {
    /// A step of one of two items by one of two writers, who resumes if the other was last.
    Step(usize, usize),
    /// The last events of an item again, through one of the writers.
    Again(usize, usize),
    /// A step that the other writer's stream takes although it was overtaken: only the fold can tell.
    Late(usize, usize),
    End(usize, usize),
    Flush(usize),
    Merge(usize),
    Reopen(usize),
    /// Both handles of a writer write: they take turns.
    Twin(usize),
}

/// Acts, each with whether everyone reads behind it.
fn acts() -> impl Strategy<Value = Vec<(Act, bool)>> {
    let which = || (0..2_usize, 0..2_usize);
    let act = prop_oneof![
        6 => which().prop_map(|(writer, item)| Act::Step(writer, item)),
        2 => which().prop_map(|(writer, item)| Act::Again(writer, item)),
        2 => which().prop_map(|(writer, item)| Act::Late(writer, item)),
        1 => which().prop_map(|(writer, item)| Act::End(writer, item)),
        2 => (0..2_usize).prop_map(Act::Flush),
        2 => (0..2_usize).prop_map(Act::Merge),
        1 => (0..2_usize).prop_map(Act::Reopen),
        1 => (0..2_usize).prop_map(Act::Twin),
    ];
    proptest::collection::vec((act, any::<bool>()), 4..32)
}

struct World {
    place: Place,
    writers: [DatagenStore; 2],
    notebook: DatagenStore,
    /// By item: each writer's stream, and what was sent last.
    streams: [[Option<StreamWriter>; 2]; 2],
    last: [Vec<Event>; 2],
    number: i64,
}

const ITEMS: [&str; 2] = ["a", "b"];
const WRITERS: [&str; 2] = ["one", "two"];

impl World {
    async fn new() -> Self {
        let place = Place::new();
        let writers = [open(&place, Some("one")).await, open(&place, Some("two")).await];
        let notebook = reader(&place).await;
        let streams = [[Some(create(&writers[0], "a").await), None], [Some(create(&writers[0], "b").await), None]];
        Self { place, writers, notebook, streams, last: [Vec::new(), Vec::new()], number: 0 }
    }

    async fn act(&mut self, act: Act) {
        self.number += 1;
        let n = self.number;
        match act {
            Act::Step(writer, item) => {
                let folded = fold(&self.writers[writer], ITEMS[item]).await;
                if folded.status != Status::Running {
                    return;
                }
                let stream = StreamWriter::resuming(&folded, WRITERS[writer], &format!("e{n}")).unwrap();
                self.send(writer, item, stream, |stream| done(stream, n % 5)).await;
            }
            Act::Late(writer, item) => {
                if let Some(stream) = self.streams[item][writer].take() {
                    // Refused where the writer can know, and fenced by the fold where it cannot.
                    self.send(writer, item, stream, |stream| done(stream, 100 + n)).await;
                }
            }
            Act::Again(writer, item) => {
                drop(self.writers[writer].append(self.last[item].clone(), Intent::Append).await)
            }
            Act::End(writer, item) => {
                if let Some(stream) = self.streams[item][writer].take() {
                    self.send(writer, item, stream, |stream| {
                        vec![stream.item_terminal(Status::Completed, None, n).unwrap()]
                    })
                    .await;
                }
            }
            Act::Flush(writer) => self.writers[writer].flush().await.unwrap(),
            Act::Merge(writer) => drop(self.writers[writer].merge().await.unwrap()),
            Act::Reopen(writer) => {
                let again = open(&self.place, Some(WRITERS[writer])).await;
                std::mem::replace(&mut self.writers[writer], again).close().await.unwrap();
            }
            Act::Twin(writer) => {
                let twin = open(&self.place, Some(WRITERS[writer])).await;
                create(&twin, &format!("twin {n}")).await;
            }
        }
    }

    async fn send(
        &mut self,
        writer: usize,
        item: usize,
        mut stream: StreamWriter,
        events: impl FnOnce(&mut StreamWriter) -> Vec<Event>,
    ) {
        let events = events(&mut stream);
        let ends = events.iter().any(|event| event.event_type == EventType::Terminal);
        if self.writers[writer].append(events.clone(), Intent::Append).await.is_ok() {
            self.last[item] = events;
            self.streams[item][writer] = (!ends).then_some(stream);
        }
    }

    async fn check(&self) {
        let fresh = reader(&self.place).await;
        let ids = ITEMS.map(id);
        let wanted = fresh.fold_items(&ids, false).await.unwrap();
        let overview = fresh.overview().await.unwrap();
        for log in [&self.writers[0], &self.writers[1], &self.notebook] {
            assert_eq!(log.fold_items(&ids, false).await.unwrap(), wanted);
            assert_eq!(fold(log, "a").await, wanted[0]);
            assert_eq!(log.overview().await.unwrap(), overview);
        }
        let with_blobs = self.notebook.fold_items(&ids, true).await.unwrap();
        assert_eq!(with_blobs, wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, max_shrink_iters: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_handle_that_folded_before_and_a_new_one_agree(acts in acts()) {
        runtime().block_on(async move {
            let playing = spawn(async move {
                let mut world = World::new().await;
                for (act, is_read) in acts {
                    world.act(act).await;
                    if is_read {
                        world.check().await;
                    }
                }
                world.check().await;
            });
            playing.await.unwrap();
        });
    }
}
