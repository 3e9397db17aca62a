WITH placed AS (
  SELECT host, device, CASE WHEN origin_unix_ns IS NULL THEN process END AS alone,
    start_ns + coalesce(origin_unix_ns, 0) AS begin_ns, duration_ns
  FROM commands WHERE outcome = 'timed'),
edges AS (
  SELECT host, device, alone, begin_ns AS moment, 1 AS step FROM placed
  UNION ALL
  SELECT host, device, alone, begin_ns + duration_ns, -1 FROM placed),
stretches AS (SELECT host, device,
  sum(step) OVER (PARTITION BY host, device, alone ORDER BY moment, step ROWS UNBOUNDED PRECEDING) AS at_once,
  lead(moment) OVER (PARTITION BY host, device, alone ORDER BY moment, step) - moment AS ns FROM edges)
SELECT host, device, CAST(at_once AS BIGINT) AS at_once, CAST(sum(ns) AS BIGINT) AS ns FROM stretches
WHERE at_once > 0 AND ns > 0 GROUP BY host, device, at_once ORDER BY host, device, at_once
