//! The rules that a new event keeps by itself: the columns of its type, and the ids that follow from its
//! place.

use super::cell::Cell;
use super::event::{Event, EventType, FieldWrite, Status};
use super::input::{Flaw, refuse};
use super::json;
use super::position::{StepKind, StepPosition};

type Checked = Result<(), Flaw>;

/// Every rule.
pub(super) fn event(event: &Event) -> Checked {
    stream(event)?;
    position(event)?;
    field(event)?;
    status(event)?;
    created_only(event)?;
    failed_only(event)?;
    if let Some(attributes) = &event.attributes {
        json::check(attributes).map_err(|message| Flaw::new("attributes", message))?;
        if attributes.trim() == "null" {
            return Err(Flaw::new("attributes", "null is no attribute; leave it out"));
        }
    }
    ids(event)
}

fn stream(event: &Event) -> Checked {
    not_empty("run_id", &event.run_id)?;
    writer_epoch(&event.writer_epoch)?;
    if event.attempt < 0 {
        return Err(Flaw::new("attempt", format!("attempts count from 0, got {}", event.attempt)));
    }
    if event.item_seq < 1 {
        return Err(Flaw::new("item_seq", format!("item_seq counts from 1, got {}", event.item_seq)));
    }
    if event.resumed_from.is_some() && event.attempt == 0 {
        return Err(Flaw::new("resumed_from", "attempt 0 resumes nothing; leave it out"));
    }
    Ok(())
}

/// A writer epoch is printable text.
pub(super) fn writer_epoch(epoch: &str) -> Checked {
    not_empty("writer_epoch", epoch)?;
    match epoch.chars().find(|c| c.is_control()) {
        Some(c) => Err(Flaw::new("writer_epoch", format!("an epoch is printable, this one has {c:?}"))),
        None => Ok(()),
    }
}

pub(super) fn not_empty(key: &'static str, text: &str) -> Checked {
    if text.is_empty() { Err(Flaw::new(key, "empty; it needs at least one character")) } else { Ok(()) }
}

fn position(event: &Event) -> Checked {
    match &event.position {
        Some(position) if event.event_type.has_position() => position_fields(position),
        Some(_) => refuse(true, "step_name", event.event_type),
        None if event.event_type.has_position() => {
            Err(Flaw::new("step_name", format!("missing; {} has it", event.event_type.name())))
        }
        None => Ok(()),
    }
}

/// The rules of a position: a name unless it is the item's own, no negative index.
pub(super) fn position_fields(position: &StepPosition) -> Checked {
    if position.step_name.is_empty() && position.step_kind != StepKind::Root {
        return Err(Flaw::new("step_name", "empty; only the item itself (step_kind `root`) has no step name"));
    }
    if position.step_index < 0 {
        return Err(Flaw::new("step_index", format!("counts from 0, got {}", position.step_index)));
    }
    Ok(())
}

fn field(event: &Event) -> Checked {
    let Some(field) = &event.field else {
        let missing = event.event_type.field_op().is_some();
        let message = || format!("missing; {} has it", event.event_type.name());
        return if missing { Err(Flaw::new("field_name", message())) } else { Ok(()) };
    };
    refuse(event.event_type.field_op() != Some(field.op), "field_name", event.event_type)?;
    field_write(field)
}

/// The rules of a field write.
pub(super) fn field_write(field: &FieldWrite) -> Checked {
    not_empty("field_name", &field.field_name)?;
    if field.codec_version < 0 {
        return Err(Flaw::new("codec_version", format!("counts from 0, got {}", field.codec_version)));
    }
    if let Cell::Json(text) = &field.value {
        json::check(text).map_err(|message| Flaw::new("value", message))?;
    }
    Ok(())
}

fn status(event: &Event) -> Checked {
    let expected: &[Status] = match event.event_type {
        EventType::ItemCreated => &[Status::Running],
        EventType::Terminal => &[Status::Completed, Status::Filtered],
        EventType::Failed => &[Status::Failed],
        _ => return refuse(event.status.is_some(), "status", event.event_type),
    };
    if event.status.is_some_and(|status| expected.contains(&status)) {
        return Ok(());
    }
    let got = event.status.map_or("nothing", Status::name);
    let names: Vec<_> = expected.iter().map(|status| format!("`{}`", status.name())).collect();
    Err(Flaw::new("status", format!("{} has {}, got {got}", event.event_type.name(), names.join(" or "))))
}

fn created_only(event: &Event) -> Checked {
    if event.event_type != EventType::ItemCreated {
        refuse(event.query_tags.is_some(), "query_tags", event.event_type)?;
        return refuse(event.config_hash.is_some(), "config_hash", event.event_type);
    }
    if event.item_seq != 1 {
        return Err(Flaw::new("item_seq", format!("ITEM_CREATED is event 1 of its item, got {}", event.item_seq)));
    }
    if event.attempt != 0 {
        return Err(Flaw::new("attempt", format!("ITEM_CREATED belongs to attempt 0, got {}", event.attempt)));
    }
    if let Some(tags) = &event.query_tags {
        json::check_object(tags).map_err(|message| Flaw::new("query_tags", message))?;
    }
    Ok(())
}

fn failed_only(event: &Event) -> Checked {
    if event.event_type == EventType::Failed {
        return not_empty("error_type", event.error_type.as_deref().unwrap_or_default());
    }
    refuse(event.error_type.is_some(), "error_type", event.event_type)?;
    refuse(event.error_dump.is_some(), "error_dump", event.event_type)?;
    refuse(event.traceback.is_some(), "traceback", event.event_type)
}

fn ids(event: &Event) -> Checked {
    let Some(computed) = event.computed_id() else {
        let message = format!(
            "`{}` is no `attempt:writer_epoch:first_seq` of this stream at or before item_seq {}",
            event.checkpoint_id, event.item_seq
        );
        return Err(Flaw::new("checkpoint_id", message));
    };
    if computed == event.event_id {
        return Ok(());
    }
    let message =
        format!("`{}` is not the id of this item, checkpoint and place, which is `{computed}`", event.event_id);
    Err(Flaw::new("event_id", message))
}
