-- Messages become generations, and settled generations leave nothing behind, whoever writes the rows.
--
-- Lock order, everywhere: message -> queued generation; active generation -> tool call -> message.

-- An unprocessed message asks for a generation of its target agent, in the same transaction.
--
-- `do update ... where false` changes nothing but locks the queued row until this transaction ends. A
-- claim skips locked rows, so no worker can take the queued generation, finish it, and leave this
-- message, which it could not see, without one. `do nothing` would lose that message.
create or replace function "ai_db".enqueue_generations() returns trigger language plpgsql as $$
declare
  wanted text[];
  made integer;
begin
  select array_agg(w.target_agent) into wanted
    from (select distinct session_id, target_agent from new_messages where not processed) w;
  if wanted is null then
    return null;
  end if;
  insert into "ai_db".generations as g (session_id, agent_name, priority, concurrency_key)
    select w.session_id, w.target_agent, s.priority, s.concurrency_key
      from (select distinct session_id, target_agent from new_messages where not processed) w
      join "ai_db".sessions s on s.id = w.session_id
     order by w.session_id, w.target_agent
    on conflict (session_id, agent_name) where status = 'pending' and attempt = 0
      do update set priority = g.priority where false;
  get diagnostics made = row_count;
  if made < cardinality(wanted) then
    -- The lock above may have made a waking worker skip the queued row: ring again at our commit.
    perform "ai_db".ring('generation', wanted);
  end if;
  return null;
end $$;

create trigger messages_enqueue after insert on "ai_db".messages
  referencing new table as new_messages for each statement
  execute function "ai_db".enqueue_generations();

-- An agent's question to another agent is a tool call of the one and a message to the other, with the
-- call's id as its request_id. The generation that took the message in settles the call: by its two legal
-- moves, as whoever answers has executed it.
create or replace function "ai_db".answer_askers(
  generation text, outcome text, failure text, inbox jsonb, worker text
) returns void language plpgsql as $$
declare
  asked text[];
begin
  -- Lock order: the asking generation, then its call.
  perform 1 from "ai_db".generations g
    where g.id in (
      select c.generation_id from "ai_db".messages m join "ai_db".tool_calls c on c.id = m.request_id
       where m.id = any (array(select jsonb_array_elements_text(answer_askers.inbox))) and m.request_id is not null
         and c.status = 'pending')
    order by g.id for no key update;
  if not found then
    return;
  end if;
  select array_agg(c.id order by c.id) into asked
    from "ai_db".messages m join "ai_db".tool_calls c on c.id = m.request_id
   where m.id = any (array(select jsonb_array_elements_text(inbox))) and m.request_id is not null and c.status = 'pending';
  if asked is null then
    return;
  end if;
  update "ai_db".tool_calls set status = 'executing', attempt = attempt + 1, worker_id = worker, started_at = now()
   where id = any (asked);
  if outcome = 'completed' then
    update "ai_db".tool_calls set status = 'completed', completed_at = now(), result = jsonb_build_object('response',
        coalesce((select content from "ai_db".messages where generation_id = generation and role = 'assistant'), ''))
     where id = any (asked);
  else
    update "ai_db".tool_calls set status = 'failed', completed_at = now(),
        error = 'the agent did not answer: ' || coalesce(failure, outcome)
     where id = any (asked);
  end if;
  -- The worker that answers may be the one that waits, and what a worker settles itself rings nobody.
  perform pg_notify('ai_db', 'settled:' || g.id) from "ai_db".generations g
   where g.status = 'generating' and g.worker_id = worker
     and g.id in (select c.generation_id from "ai_db".tool_calls c where c.id = any (asked));
end $$;

-- A settled generation: its inbox is processed, its unsettled tool calls are cancelled, and messages
-- it did not take in have a next generation.
create or replace function "ai_db".finish_generation() returns trigger language plpgsql as $$
declare
  message text;
  request text;
  asked boolean := false;
begin
  if old.attempt = 0 then
    -- Stopped before its first claim fixed an inbox: it would have answered whatever is there, but for
    -- what the active generation has taken in and answers.
    update "ai_db".messages m set processed = true, processed_by = new.id
     where m.session_id = new.session_id and m.target_agent = new.agent_name and not m.processed
       and not exists (
         select 1 from "ai_db".generations a
          where a.session_id = new.session_id and a.agent_name = new.agent_name
            and a.attempt > 0 and a.status in ('pending', 'generating', 'waiting') and a.inbox ? m.id);
    return null;
  end if;
  -- One by one: by its key a message is found in any table, while for a list the planner keeps for the rest
  -- of the connection's life what was best when the table was small.
  for place in 0 .. jsonb_array_length(new.inbox) - 1 loop
    message := new.inbox ->> place;
    update "ai_db".messages set processed = true, processed_by = new.id where id = message and not processed
      returning request_id into request;
    if not found then
      select request_id into request from "ai_db".messages where id = message;
    end if;
    asked := asked or request is not null;
  end loop;
  if asked then
    perform "ai_db".answer_askers(new.id, new.status, new.error, new.inbox, coalesce(new.worker_id, 'nobody'));
  end if;
  if new.status <> 'completed' then
    update "ai_db".tool_calls
       set status = 'cancelled', cancel_reason = coalesce(new.cancel_reason, 'by-error'), completed_at = now()
     where generation_id = new.id and status in ('pending', 'executing');
  end if;
  -- A message that commits after this look has made its own generation, or locked the queued one.
  if exists (
    select 1 from "ai_db".messages m
     where m.session_id = new.session_id and m.target_agent = new.agent_name and not m.processed) then
    insert into "ai_db".generations as g (session_id, agent_name, priority, concurrency_key)
      select new.session_id, new.agent_name, s.priority, s.concurrency_key
        from "ai_db".sessions s where s.id = new.session_id
      on conflict (session_id, agent_name) where status = 'pending' and attempt = 0
        do update set priority = g.priority where false;
  end if;
  return null;
end $$;

create trigger generations_finish after update on "ai_db".generations for each row
  when (old.status <> new.status and new.status in ('completed', 'failed', 'cancelled'))
  execute function "ai_db".finish_generation();

-- Does a generation wait for nothing but people?
create or replace function "ai_db".waits_for_people(generation text) returns boolean language sql stable as $$
  select not exists (
    select 1 from "ai_db".tool_calls c
     where c.generation_id = generation and c.status in ('pending', 'executing')
       and (c.status = 'executing' or c.approvals_required = 0 or c.approved_at is not null))
$$;

-- Puts a generation down while something it asked for is unsettled. Returns true when it did. `gated` are the calls
-- its worker runs itself once they are approved: with one of them approved it has something to do.
--
-- A function, not one UPDATE: the check must see what committed while it waited for the row's lock,
-- and inside a statement every subquery keeps the older snapshot.
create or replace function "ai_db".put_down_generation(
  generation text, fence integer, reason text, gated text[] default '{}'
) returns boolean language plpgsql as $$
begin
  perform 1 from "ai_db".generations
    where id = generation and attempt = fence and status = 'generating' for no key update;
  if not found then
    return null;
  end if;
  update "ai_db".generations set
    status = 'waiting', attempts_without_progress = 0,
    wait_reason = case when reason = 'tools' and "ai_db".waits_for_people(generation) then 'approval' else reason end
   where id = generation
     and exists (
       select 1 from "ai_db".tool_calls
        where generation_id = generation and status in ('pending', 'executing'))
     and not exists (
       select 1 from "ai_db".tool_calls
        where id = any (gated) and status = 'pending' and approved_at is not null);
  return found;
end $$;

-- The transaction that settles the last thing a waiting generation waits for makes it pending again.
create or replace function "ai_db".resume_generation() returns trigger language plpgsql as $$
declare
  holder record;
begin
  select id, status, wait_reason, worker_id into holder
    from "ai_db".generations where id = new.generation_id for no key update;
  if holder.status = 'waiting' and holder.wait_reason in ('tools', 'approval') then
    update "ai_db".generations g set status = 'pending', wait_reason = null, run_at = now()
     where g.id = new.generation_id and not exists (
       select 1 from "ai_db".tool_calls c
        where c.generation_id = g.id and c.status in ('pending', 'executing'));
    if not found and holder.wait_reason = 'tools' and "ai_db".waits_for_people(new.generation_id) then
      update "ai_db".generations g set wait_reason = 'approval' where g.id = new.generation_id;
    end if;
  elsif holder.status = 'generating' and holder.worker_id is distinct from new.worker_id then
    perform pg_notify(tg_table_schema, 'settled:' || new.generation_id);
  end if;
  return null;
end $$;

create trigger tool_calls_settled after update on "ai_db".tool_calls for each row
  when (old.status <> new.status and new.status in ('completed', 'failed', 'cancelled'))
  execute function "ai_db".resume_generation();
