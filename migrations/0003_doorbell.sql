-- Wake-ups. A NOTIFY is a hint, never a claim: losing one costs at most a poll interval.
--
-- NOTIFY takes one lock for the whole database at commit and halves the enqueue rate at ten
-- connections. So a transaction rings only if somebody sleeps, and a worker that falls asleep looks
-- again until every transaction that may have read the older `sleeping` has ended
-- (src/runner/fall-asleep.ts). The channel is the schema's name; payloads: docs/spec.md, "Doorbell".

create or replace function "ai_db".ring(kind text, names text[]) returns void language plpgsql as $$
begin
  if kind = 'generation' then
    perform pg_notify('ai_db', 'generation:' || n.name)
      from (select distinct unnest(names) as name) n
     where exists (select 1 from "ai_db".workers w
                    where w.sleeping and w.lease_expires_at > now() and n.name = any (w.agents));
  else
    perform pg_notify('ai_db', 'tool-call:' || n.name)
      from (select distinct unnest(names) as name) n
     where exists (select 1 from "ai_db".workers w
                    where w.sleeping and w.lease_expires_at > now() and n.name = any (w.tools));
  end if;
end $$;

create or replace function "ai_db".ring_new_generations() returns trigger language plpgsql as $$
begin
  perform "ai_db".ring('generation', (select array_agg(agent_name) from new_generations));
  return null;
end $$;

create trigger generations_ring_inserted after insert on "ai_db".generations
  referencing new table as new_generations for each statement
  execute function "ai_db".ring_new_generations();

create or replace function "ai_db".ring_generation() returns trigger language plpgsql as $$
begin
  perform "ai_db".ring('generation', array[new.agent_name]);
  return null;
end $$;

-- A row trigger with WHEN costs nothing on claims and settles, where a statement trigger would run.
create trigger generations_ring_pending after update of status on "ai_db".generations for each row
  when (new.status = 'pending' and old.status <> 'pending')
  execute function "ai_db".ring_generation();

-- The holder of a cancelled generation is told at once; the fence stops it in any case.
create or replace function "ai_db".notify_cancelled() returns trigger language plpgsql as $$
begin
  perform pg_notify(tg_table_schema, 'cancelled:' || new.id);
  return null;
end $$;

create trigger generations_cancelled after update of status on "ai_db".generations for each row
  when (old.status = 'generating' and new.status = 'cancelled')
  execute function "ai_db".notify_cancelled();

create trigger tool_calls_cancelled after update of status on "ai_db".tool_calls for each row
  when (old.status = 'executing' and new.status = 'cancelled')
  execute function "ai_db".notify_cancelled();

create or replace function "ai_db".ring_new_tool_calls() returns trigger language plpgsql as $$
declare
  names text[];
begin
  names := array(select name from new_tool_calls where status = 'pending' and approvals_required = 0);
  if names <> '{}' then
    perform "ai_db".ring('tool-call', names);
  end if;
  return null;
end $$;

create trigger tool_calls_ring_inserted after insert on "ai_db".tool_calls
  referencing new table as new_tool_calls for each statement
  execute function "ai_db".ring_new_tool_calls();

create or replace function "ai_db".ring_tool_call() returns trigger language plpgsql as $$
begin
  perform "ai_db".ring('tool-call', array[new.name]);
  return null;
end $$;

create trigger tool_calls_ring_pending after update of status on "ai_db".tool_calls for each row
  when (new.status = 'pending' and old.status <> 'pending')
  execute function "ai_db".ring_tool_call();

-- Workers watch each other's advisory locks in a ring; a new or gone worker changes the ring.
create or replace function "ai_db".notify_workers() returns trigger language plpgsql as $$
begin
  perform pg_notify(tg_table_schema, 'workers');
  return null;
end $$;

create trigger workers_changed after insert or delete on "ai_db".workers for each statement
  execute function "ai_db".notify_workers();
