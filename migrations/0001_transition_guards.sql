-- The database refuses what the code promises never to do, from any writer, psql included.
--
-- The legal moves stand in each trigger's arguments: the SQL half of src/contract/status.ts. The two
-- are compared cell by cell in test/postgres/transitions.test.ts. SQLSTATE AI001 is mapped to the
-- error code ILLEGAL_TRANSITION at one seam (src/internal/database-errors.ts).

-- A row's status moves only along TG_ARGV, and a claim is the only thing that changes `attempt`.
create or replace function "ai_db".guard_status() returns trigger language plpgsql as $$
declare
  held constant text := case tg_table_name when 'generations' then 'generating' else 'executing' end;
begin
  if new.status <> old.status then
    if not (old.status || '>' || new.status) = any (tg_argv) then
      raise exception '%: % -> % is not a legal move (id %)', tg_table_name, old.status, new.status, old.id
        using errcode = 'AI001', hint = 'A settled row stays settled; see the transition tables in docs/spec.md.';
    end if;
    if new.status = held and new.attempt <> old.attempt + 1 then
      raise exception '%: a claim sets attempt = attempt + 1 (id %, % -> %)', tg_table_name, old.id, old.attempt, new.attempt
        using errcode = 'AI001', hint = 'Claim through the library, or add 1 to attempt in the same update.';
    end if;
  end if;
  if new.attempt <> old.attempt and not (new.status = held and old.status <> held) then
    raise exception '%: only a claim changes attempt (id %)', tg_table_name, old.id
      using errcode = 'AI001', hint = 'attempt is the fence: leave it alone.';
  end if;
  new.updated_at := now();
  return new;
end $$;

create or replace function "ai_db".refuse_initial_status() returns trigger language plpgsql as $$
begin
  raise exception '%: a row cannot be inserted as % (id %)', tg_table_name, new.status, new.id
    using errcode = 'AI001', hint = 'Insert it as pending.';
end $$;

create trigger generations_guard before update on "ai_db".generations for each row
  execute function "ai_db".guard_status(
    'pending>generating', 'pending>failed', 'pending>cancelled',
    'generating>pending', 'generating>waiting', 'generating>completed', 'generating>failed', 'generating>cancelled',
    'waiting>pending', 'waiting>failed', 'waiting>cancelled');

create trigger generations_initial before insert on "ai_db".generations for each row
  when (new.status not in ('pending') or new.attempt <> 0)
  execute function "ai_db".refuse_initial_status();

create trigger tool_calls_guard before update on "ai_db".tool_calls for each row
  execute function "ai_db".guard_status(
    'pending>executing', 'pending>failed', 'pending>cancelled',
    'executing>pending', 'executing>completed', 'executing>failed', 'executing>cancelled');

-- Born `executing`: the worker that writes the row runs it itself. Born `failed`: nothing can run it.
create trigger tool_calls_initial before insert on "ai_db".tool_calls for each row
  when (new.status not in ('pending', 'executing', 'failed'))
  execute function "ai_db".refuse_initial_status();

create trigger fibers_guard before update on "ai_db".fibers for each row
  execute function "ai_db".guard_status(
    'pending>executing', 'pending>failed', 'pending>cancelled',
    'executing>pending', 'executing>completed', 'executing>failed', 'executing>cancelled');

create trigger fibers_initial before insert on "ai_db".fibers for each row
  when (new.status not in ('pending', 'executing'))
  execute function "ai_db".refuse_initial_status();

-- Approvals are an audit trail: appended, never changed. (They go only with their tool call.)
create or replace function "ai_db".refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% rows are append-only (id %)', tg_table_name, old.id
    using errcode = 'AI001', hint = 'Insert a new row instead.';
end $$;

create trigger approvals_append_only before update on "ai_db".approvals for each row
  execute function "ai_db".refuse_change();

-- The hash always is that of the arguments, whoever writes them.
create or replace function "ai_db".hash_args() returns trigger language plpgsql as $$
begin
  new.args_hash := encode(sha256(convert_to(new.args::text, 'UTF8')), 'hex');
  return new;
end $$;

create trigger tool_calls_args_hash before insert or update of args, args_hash on "ai_db".tool_calls for each row
  execute function "ai_db".hash_args();
