-- Checkpoints never go back, and a runner's fence never falls, whoever writes. SQLSTATE AI008 is the error code
-- CHECKPOINT_REGRESSED. Deleting a row is how an operator has a source read anew.

-- Does cursor `a` come before `b`? Decimal numbers by value, and before all other text; text by its bytes. The SQL
-- half of src/contract/cursor-order.ts; the two are compared in test/lifecycle/postgres-lifecycle.test.ts.
create or replace function "ai_db".cursor_precedes(a text, b text) returns boolean language sql immutable as $$
  select case
    when a ~ '^[0-9]+$' and b ~ '^[0-9]+$' then
      (length(ltrim(a, '0')), ltrim(a, '0') collate "C") < (length(ltrim(b, '0')), ltrim(b, '0') collate "C")
    when (a ~ '^[0-9]+$') <> (b ~ '^[0-9]+$') then a ~ '^[0-9]+$'
    else a collate "C" < b collate "C"
  end
$$;

create or replace function "ai_db".guard_checkpoint() returns trigger language plpgsql as $$
begin
  if new.runner_id <> old.runner_id or new.source <> old.source then
    raise exception 'checkpoints: a row stays with its runner and source (% %)', old.runner_id, old.source
      using errcode = 'AI001', hint = 'Insert a row of its own.';
  end if;
  if new.attempt < old.attempt then
    raise exception 'checkpoints: attempt % of runner % is older than the recorded %', new.attempt, old.runner_id, old.attempt
      using errcode = 'AI001', hint = 'Write with the attempt of the last claim.';
  end if;
  -- The runner's own row holds the wake it took, which has no order.
  if new.source <> '' and "ai_db".cursor_precedes(new.cursor, old.cursor) then
    raise exception 'The checkpoint of ''%'' would go back from ''%'' to ''%''', new.source, old.cursor, new.cursor
      using errcode = 'AI008', column = 'cursor',
        hint = 'Record cursors in the order they were read; a source that began anew needs a new name, or its checkpoint forgotten.';
  end if;
  return new;
end $$;

create trigger checkpoints_guard before update on "ai_db".checkpoints for each row
  execute function "ai_db".guard_checkpoint();
